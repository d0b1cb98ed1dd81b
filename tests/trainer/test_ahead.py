"""A batch that is played while the one before it is learnt from: by which weights, how the loss is
corrected for that, and that no stop changes what is on record."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
import torch
from safetensors.torch import load_file

from rods.buffers.audit.verify import verify
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.buffers.state import RunState
from rods.canonical import without
from rods.config import parse_config
from rods.errors import UserError
from rods.trainer import ahead, main, token_scores, trl_start
from rods.trainer.advantages import AdvantageEstimate, Array
from rods.trainer.engines.local import LocalEngine
from rods.trainer.nano.warm_start import warm_started
from rods.trainer.training_run import TrainingRun
from rods.worlds.sources import load_tasks
from tests.trainer.served_stub import Served, served
from tests.trainer.test_served_training import VALUES as SERVED

STEPS = 6
# an epoch has four steps: the fifth is played by what the fourth has learnt, behind the merge
AHEAD = [0, 0, 1, 2, 4, 4]
VALUES: dict[str, Any] = {
    **SERVED,
    "data": SERVED["data"] | {"train": 8},
    "rollouts": SERVED["rollouts"] | {"ahead": 1},
    "training": {
        **SERVED["training"],
        "steps": STEPS,
        "learning_rate": 0.0003,  # what is ahead is near to the policy, whatever it learns
        "checkpoint_steps": 3,
        "deterministic": True,
        "advantage_hook": f"{__name__}:uneven",
    },
    "curriculum": {"stages": [{"expand": False}]},
}


def uneven(estimate: AdvantageEstimate) -> Array:
    """A policy that has learnt nothing earns nothing, and its server always writes the same."""
    return np.linspace(-1.0, 2.0, estimate.advantages.size).reshape(estimate.advantages.shape)


class Killed(BaseException):
    """The trainer is gone, and has tidied nothing up."""


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory, monkeypatch: Any) -> Iterator[Served]:
    monkeypatch.setenv("RODS_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    config = parse_config(VALUES, where="test")
    initial = LocalEngine.load(warm_started(config), config.rollouts).model.eval()
    with served(deepcopy(initial)) as state:
        yield state


def opened(folder: Path, state: Served, **changes: Any) -> Run:
    """A run in `folder`, made if need be. `changes`: keys of a section, or of [operation]."""
    given = {"rollout_servers": [{"model": "nano", "urls": [state.url]}], "threads": 1}
    values = {**VALUES, "operation": given}
    for section, keys in changes.items():
        values[section] = {**values[section], **keys}
    config = parse_config(values, where="test")
    if (folder / "run").exists():
        return Run.open(folder / "run", config)
    return create_run(folder / "run", config, load_tasks(config.data, folder))


def trained(folder: Path, state: Served, **changes: Any) -> Run:
    run = opened(folder, state, **changes)
    with TrainingRun(run) as training:
        trl_start.train(training)
    return run


def closed(run: Run) -> list[dict[str, Any]]:
    """The closing record of each live step, with its groups, but for who wrote it and when."""
    apart = "attempt", "time", "seq", "first", "id", "crc"
    return [
        {**without(step.record, *apart), "groups": [group.as_json() for group in step.groups]}
        for step in RunState(Run.open(run.path)).steps()
    ]


def learnt_by(run: Run) -> bytes:
    """The weights of the last checkpoint."""
    folder = max((run.path / "checkpoints").glob("step_*"))
    return (folder / "policy" / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_the_next_batch_is_played_while_the_weights_are_updated(
    tmp_path: Path, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    asked = threading.Event()
    updated = threading.Event()
    updated.set()
    answer = server.answer
    learn = TrainingRun.after_update
    begin = ahead.Ahead.begin

    def held(path: str, body: Any) -> Any:
        """No reply of what is ahead comes before the update is over."""
        if path.endswith("/completions"):
            asked.set()
            assert updated.wait(60), "the update waits for what is ahead of it"
        return answer(path, body)

    def beginning(self: Any, batch: Any, play: Any) -> None:
        events.append(f"play {batch.step}")
        asked.clear()
        updated.clear()
        begin(self, batch, play)

    def updating(self: Any, *given: Any) -> Any:
        if not updated.is_set():
            assert asked.wait(60), "nobody plays during the update"
        events.append(f"updated {self.step}")
        updated.set()
        return learn(self, *given)

    monkeypatch.setattr(server, "answer", held)
    monkeypatch.setattr(ahead.Ahead, "begin", beginning)
    monkeypatch.setattr(TrainingRun, "after_update", updating)
    run = trained(tmp_path, server)
    assert events == [
        *("play 2", "updated 1", "play 3", "updated 2", "play 4", "updated 3", "updated 4"),
        *("play 6", "updated 5", "updated 6"),
    ]
    assert [step["policy_step"] for step in closed(run)] == AHEAD
    assert len(server.loaded) == STEPS
    assert verify(run.path).problems == []


@pytest.mark.slow
@pytest.mark.numeric
def test_a_token_counts_by_how_much_likelier_it_has_become(
    tmp_path: Path, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[dict[str, Any], float]] = []
    compute = token_scores.OwnTokenLoss._compute_loss

    def watched(self: Any, model: Any, inputs: Any) -> Any:
        loss = compute(self, model, inputs)
        seen.append((inputs, float(loss.detach())))
        return loss

    monkeypatch.setattr(token_scores.OwnTokenLoss, "_compute_loss", watched)
    batch = SERVED["training"]["batch_tasks"] * SERVED["rollouts"]["rollouts_per_task"]
    run = trained(
        tmp_path,
        server,
        training={"steps": 2, "checkpoint_steps": 1},
        operation={"micro_batch": batch},
    )
    (folder,) = (run.path / "checkpoints").glob("step_00000001.a*")
    learnt = deepcopy(server.model)
    learnt.load_state_dict(load_file(folder / "policy" / "model.safetensors"), strict=False)
    inputs, loss = seen[1]  # of step 2, which untrained weights have played
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
    shown = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
    with torch.inference_mode():
        logits = learnt(input_ids=ids, attention_mask=shown).logits.log_softmax(-1)
    width = inputs["completion_ids"].shape[1]
    scores = logits[:, -width - 1 : -1].gather(-1, inputs["completion_ids"][..., None])[..., 0]
    own = inputs["tool_mask"] * inputs["completion_mask"]
    ratios = (scores - inputs["sampling_per_token_logps"]).exp().clamp(max=2.0)
    weighted = -(inputs["advantages"].reshape(len(ids), -1) * own)
    assert loss == pytest.approx(float((weighted * ratios).sum() / own.sum()), abs=1e-5)
    assert abs(loss - float(weighted.sum() / own.sum())) > 1e-3


@pytest.mark.slow
@pytest.mark.numeric
def test_no_stop_changes_what_is_on_record(
    tmp_path: Path, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    initial = server.initial
    (tmp_path / "whole").mkdir()
    run = trained(tmp_path / "whole", server)
    whole = closed(run)
    learnt = learnt_by(run)
    assert [step["policy_step"] for step in whole] == AHEAD
    before: dict[str, Any] = {
        name: getattr(TrainingRun, name)
        for name in ("next_batch", "record", "batch_ahead", "after_update", "_save")
    }
    for number, (name, calls) in enumerate(
        [("record", 5), ("batch_ahead", 3), ("after_update", 4), ("_save", 2), ("next_batch", 5)]
    ):
        folder = tmp_path / f"killed-{number}"
        folder.mkdir()
        left = iter(range(calls - 1))

        def call(self: Any, *given: Any, _name: str = name, _left: Any = left, **more: Any) -> Any:
            if next(_left, None) is None:
                raise Killed
            return before[_name](self, *given, **more)

        server.model.load_state_dict(initial)
        monkeypatch.setattr(TrainingRun, name, call)
        with pytest.raises(Killed):
            trained(folder, server)
        monkeypatch.setattr(TrainingRun, name, before[name])
        run = trained(folder, server)
        assert closed(run) == whole, (name, calls)
        assert learnt_by(run) == learnt, (name, calls)


@pytest.mark.slow
def test_a_checkpoint_keeps_what_is_ahead_unless_the_machinery_broke_in_it(
    tmp_path: Path, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = ahead.Ahead.begin
    initial = deepcopy(server.initial)
    found: dict[str, list[dict[str, Any]]] = {}
    kept: dict[str, bool] = {}
    asked: dict[str, int] = {}
    for name in ("whole", "kept", "broken"):
        folder = tmp_path / name
        folder.mkdir()
        server.model.load_state_dict(initial)
        server.asked.clear()

        def beginning(self: Any, batch: Any, play: Any, _name: str = name) -> None:
            if (_name, batch.step) == ("broken", 3):
                server.ends.append("abort")
            begin(self, batch, play)

        monkeypatch.setattr(ahead.Ahead, "begin", beginning)
        if name != "whole":
            run = trained(folder, server, operation={"step_limit": 2}, training={"steps": 3})
            kept[name] = any(run.path.glob(f"checkpoints/step_00000002.a*/policy/{ahead.FILE}"))
        found[name] = closed(trained(folder, server, training={"steps": 3}))
        asked[name] = len(server.asked)
    assert kept == {"kept": True, "broken": False}
    assert found["kept"] == found["whole"]
    assert asked["kept"] == asked["whole"] < asked["broken"]
    assert [step["policy_step"] for step in found["broken"]] == [0, 0, 2]


@pytest.mark.parametrize("kind", ["nano", "simulated"])
def test_who_plays_alone_cannot_be_ahead(tmp_path: Path, kind: str) -> None:
    values = without(VALUES, "policy", "training") | {"policy": {"kind": kind}}
    file = tmp_path / "run.toml"
    file.write_text(tomli_w.dumps(values))
    with pytest.raises(UserError, match=r"rollouts\.ahead.*\[\[operation\.rollout_servers\]\]"):
        main._start(tmp_path / "run", config=file)
    assert not (tmp_path / "run").exists()
