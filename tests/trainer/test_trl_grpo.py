"""The one module that knows TRL: what is recorded before the update, what is trained on, and the
pin it rests on."""

import gzip
import inspect
import tomllib
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import orjson
import pytest
import torch
from safetensors.torch import load_file
from trl import GRPOTrainer
from trl.trainer import utils as trl_utils

from rods.buffers.audit.verify import verify
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS
from rods.buffers.state import RunState
from rods.config import parse_config
from rods.console.progress import Progress
from rods.episode.diagnosis import diagnose
from rods.episode.engine import Trace
from rods.errors import InfrastructureError
from rods.family.page.follower import Follower
from rods.observations import Rollout
from rods.tasks import scripted
from rods.trainer import advantages, batches, reporters, token_scores, trl_grpo, trl_start
from rods.trainer.chat import Chat
from rods.trainer.engines.base import Sample
from rods.trainer.training_run import TrainingRun
from rods.worlds.sources import load_tasks
from tests.environments import ENVIRONMENTS
from tests.trainer.runs import live_steps

STEPS = 2
TASKS = 3
ROLLOUTS = 4
VALUES: dict[str, dict[str, Any]] = {
    "data": {"tasks": "desk-small", "train": 6, "held_out": 4},
    "policy": {"kind": "nano", "warm_start_steps": 1},
    "rollouts": {
        "rollouts_per_task": ROLLOUTS,
        "max_reply_tokens": 6,
        "max_context_tokens": 256,
        "max_steps": 2,
    },
    "training": {
        "batch_tasks": TASKS,
        "steps": STEPS,
        "learning_rate": 0.01,
        "optimizer": "muon",
        "kl": 0.0,
    },
    "operation": {"threads": 1, "trace_every": 1},
}


def _new_run(folder: Path, **changes: dict[str, object]) -> Run:
    config = parse_config(
        {**VALUES, **{name: {**VALUES[name], **keys} for name, keys in changes.items()}},
        where="test",
    )
    return create_run(folder / "run", config, load_tasks(config.data, folder))


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RODS_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    return tmp_path_factory.mktemp("runs")


def _uneven(monkeypatch: pytest.MonkeyPatch) -> None:
    """An untrained policy earns nothing: give every group rewards that differ, and one
    infrastructure failure."""
    rewards = iter([None, 1.0, 0.0, 0.5] * (10 * TASKS))

    def score(trace, *given):
        reward = next(rewards)
        return Rollout(
            0,
            trace.expected,
            0,
            0.0,
            reward,
            "finished" if reward is not None else "infrastructure",
        )

    monkeypatch.setattr(batches, "score", score)


@pytest.mark.slow
def test_a_run_whose_rollouts_all_break_ends_before_it_spends_its_steps(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(trl_grpo, "BROKEN", 2)
    ends = iter([0, 1, 0, 0])  # steps of which some rollout comes to its end, or none
    broken: dict[str, int] = {}

    def score(trace, *given):
        return Rollout(0, trace.expected, 0, 0.0, None if broken["now"] else 0.5, "infrastructure")

    def groups(*given, whole=batches.groups):
        broken["now"] = not next(ends)
        return whole(*given)

    monkeypatch.setattr(batches, "score", score)
    monkeypatch.setattr(batches, "groups", groups)
    run = _new_run(home, training={"steps": 9})
    with TrainingRun(run) as training, pytest.raises(InfrastructureError, match="2 steps in a row"):
        trl_start.train(training)
    # one breaks now and then; the fourth is not taken
    assert [step for step, *_ in live_steps(run.path)] == [1, 2, 3]


@pytest.mark.slow
def test_observations_are_durable_before_the_update_that_they_describe(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    _uneven(monkeypatch)
    run = _new_run(home)
    weights: list[torch.Tensor] = []
    trainers: list[trl_start.WeightTrainer] = []
    made = trl_start.WeightTrainer.__init__
    recorded = TrainingRun.record
    updated = TrainingRun.after_update

    def remember(self, *given):
        made(self, *given)
        trainers.append(self)

    def now() -> torch.Tensor:
        return next(iter(trainers[0].engine.model.model.layers.parameters())).detach().clone()

    def record(self, *given, **spent):
        weights.append(now())
        recorded(self, *given, **spent)
        assert len(live_steps(run.path)) == self.step

    def after_update(self, *given):
        assert not torch.equal(now(), weights[-1])
        updated(self, *given)

    monkeypatch.setattr(trl_start.WeightTrainer, "__init__", remember)
    monkeypatch.setattr(TrainingRun, "record", record)
    monkeypatch.setattr(TrainingRun, "after_update", after_update)
    with TrainingRun(run) as training:
        trl_start.train(training)
    steps = live_steps(run.path)
    assert [step for step, *_ in steps] == [1, 2]
    assert all(
        len(groups) == TASKS and len(groups[0]["rollouts"]) == ROLLOUTS for *_, groups in steps
    )
    assert not any(list((run.path / "checkpoints").rglob("*.parquet")))


@pytest.mark.numeric
@pytest.mark.slow
def test_trl_trains_on_the_tokens_that_were_sampled(home: Path, monkeypatch: pytest.MonkeyPatch):
    _uneven(monkeypatch)
    run = _new_run(home, training={"steps": 1})
    seen: list[tuple[list[Sample], dict[str, torch.Tensor]]] = []
    scored = trl_grpo.RunTrainer._generate_and_score_completions

    def watch(self, inputs):
        output = scored(self, inputs)
        seen.append((self.samples, output))
        return output

    monkeypatch.setattr(trl_grpo.RunTrainer, "_generate_and_score_completions", watch)
    with TrainingRun(run) as training:
        trl_start.train(training)
    samples, output = seen[0]
    for row, sample in enumerate(samples):
        asked = output["prompt_mask"][row].bool()
        assert output["prompt_ids"][row][asked].tolist() == sample.prompt_ids
        answered = output["completion_mask"][row].bool()
        assert output["completion_ids"][row][answered].tolist() == sample.completion_ids
        assert output["tool_mask"][row][answered].tolist() == sample.env_mask
    advantages = output["advantages"].view(TASKS, ROLLOUTS)
    assert (advantages[:, 0] == 0).all()  # the infrastructure failure: its reward was None
    assert (advantages[:, 1] > 0).all() and (advantages[:, 2] < 0).all()


def test_without_a_gpu_a_backward_pass_has_as_many_sequences_as_a_group(home: Path) -> None:
    run = _new_run(home)
    settings = trl_start.arguments(run, 1, bf16=False)
    whole = run.config.training.batch_tasks * ROLLOUTS
    own = whole if torch.cuda.is_available() else ROLLOUTS
    assert whole > ROLLOUTS
    assert settings.per_device_train_batch_size == own
    assert settings.gradient_accumulation_steps == whole // own


@pytest.mark.slow
@pytest.mark.numeric
@pytest.mark.parametrize("passes", [1, 2])
def test_a_step_records_how_its_turns_went_and_its_update_the_entropy_of_the_policys_own_tokens(
    home: Path, monkeypatch: pytest.MonkeyPatch, passes: int
) -> None:
    """The entropy against one computed from the logits of the weights that made the rollouts, token
    by token, whatever the micro-batches; `kl` keeps every rollout in the update."""
    _uneven(monkeypatch)
    run = _new_run(
        home,
        training={"kl": 0.1, "passes": passes},
        rollouts={"temperature": 0.7},
        operation={"micro_batch": ROLLOUTS},
    )
    expected: list[float] = []
    traces: list[Trace] = []
    scored = trl_grpo.RunTrainer._generate_and_score_completions

    def by_hand(self, inputs):
        output = scored(self, inputs)
        entropies: list[torch.Tensor] = []
        with torch.no_grad():
            for sample in self.samples:
                ids = sample.prompt_ids + sample.completion_ids
                logits = self.engine.model(
                    torch.tensor([ids], device=self.engine.model.device)
                ).logits[0]
                chances = (
                    (logits.cpu()[len(sample.prompt_ids) - 1 : -1] / 0.7).double().log_softmax(-1)
                )
                own = torch.tensor(sample.env_mask).bool()
                entropies.append(-(chances.exp() * chances).sum(-1)[own])
        expected.append(float(torch.cat(entropies).mean()))
        traces.extend(sample.trace for sample in self.samples)
        return output

    monkeypatch.setattr(trl_grpo.RunTrainer, "_generate_and_score_completions", by_hand)
    with TrainingRun(run) as training:
        trl_start.train(training)
        gauges = reporters.gauges(training.trainer_log)
    records = list(RunState(run).records(OBSERVATIONS))
    kinds = [record["kind"] for record in records if record["kind"] != "group"]
    assert kinds == ["start", "step", "update", "step", "update"], (
        "the last one stands before the last checkpoint"
    )
    updates = [record for record in records if record["kind"] == "update"]
    assert [record["step"] for record in updates] == [1, 2]
    assert [record["entropy"] for record in updates] == pytest.approx(expected, abs=2e-6) and min(
        expected
    ) > 0.1
    checkpoint = orjson.loads(max((run.path / "checkpoints").glob("*/manifest.json")).read_bytes())
    assert [record["gradient_norm"] for record in updates] == pytest.approx(
        checkpoint["curriculum"]["norms"], abs=1e-6
    )
    rollouts = [
        rollout
        for *_, groups in live_steps(run.path)
        for group in groups
        for rollout in group["rollouts"]
    ]
    assert [(one["calling"], one["replies"]) for one in rollouts] == [
        (
            sum(any(step.calls for step in turn.steps) for turn in trace.turns),
            sum(len(turn.steps) for turn in trace.turns),
        )
        for trace in traces
    ]
    finished = [one for one in rollouts if one["end"] == "finished"]
    last = [one for one in rollouts[len(rollouts) // 2 :] if one["end"] == "finished"]
    now = Progress(run.path).poll()
    follower = Follower(run.path)
    follower.look()
    assert now.entropy == pytest.approx(fmean(expected), abs=2e-6)
    assert now.replies == sum(one["replies"] for one in finished) / sum(
        one["expected"] for one in finished
    )
    entropies = [record["entropy"] for record in updates]
    assert follower.updates["entropy"].tolist() == entropies
    assert follower.steps["turns"].all() and follower.steps["step"].tolist() == [1, 2]
    assert gauges["turns/replies"] == sum(one["replies"] for one in last) / sum(
        one["expected"] for one in last
    )
    assert verify(run.path).ok


@pytest.mark.numeric
def test_only_the_policys_own_tokens_are_scored_and_the_gradient_is_trls(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    _uneven(monkeypatch)
    run = _new_run(home, training={"steps": 1}, operation={"micro_batch": ROLLOUTS})
    project = trl_utils._ChunkedLogProbFunction.apply
    ours = token_scores.OwnTokenLoss._compute_loss
    scored: list[int] = []
    shares: list[float] = []

    def count(hidden, *given):
        scored.append(len(hidden))
        return project(hidden, *given)

    def trls(compute, model, ids, seen, completion, *, rows, own, **options):
        return compute(model, ids, seen, completion, batch_size=rows, **options)

    def both(self, model, inputs):
        # a task's rollouts stand together
        assert (inputs["prompt_ids"] == inputs["prompt_ids"][:1]).all()
        weights = [weight for weight in self.engine.model.parameters() if weight.requires_grad]
        with monkeypatch.context() as plain:
            plain.setattr(token_scores, "score_tokens", trls)
            plain.setattr(self, "_with_advantage", lambda inputs: inputs)
            expected = torch.autograd.grad(ours(self, model, inputs), weights)
        everything = scored[-1]
        found = torch.autograd.grad(ours(self, model, inputs), weights)
        taught = (inputs["advantages"] != 0)[:, None]
        assert scored[-1] == (inputs["completion_mask"] * inputs["tool_mask"] * taught).sum()
        shares.append(scored[-1] / everything)
        assert all(
            torch.allclose(one, other, atol=1e-5)
            for one, other in zip(found, expected, strict=True)
        )
        return ours(self, model, inputs)

    monkeypatch.setattr(trl_utils._ChunkedLogProbFunction, "apply", count)
    monkeypatch.setattr(token_scores.OwnTokenLoss, "_compute_loss", both)
    with TrainingRun(run) as training:
        trl_start.train(training)
    assert len(shares) == TASKS and min(shares) < 0.8  # some episodes had several turns


def test_a_prompt_that_overflows_the_context_trains_nothing_and_breaks_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    run = _new_run(home, rollouts={"max_context_tokens": 16}, training={"steps": 1})
    loss = token_scores.OwnTokenLoss._compute_loss
    columns = []

    def watch(self, model, inputs):
        columns.append(inputs["prompt_ids"].shape[1] + inputs["completion_ids"].shape[1])
        return loss(self, model, inputs)

    monkeypatch.setattr(token_scores.OwnTokenLoss, "_compute_loss", watch)
    with TrainingRun(run) as training:
        trl_start.train(training)
    ((_, _, groups),) = live_steps(run.path)
    assert {rollout["end"] for group in groups for rollout in group["rollouts"]} == {"context"}
    assert set(columns) == {2}


def test_the_pin_of_trl_and_what_the_module_takes_for_granted():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    pinned = next(
        line for line in project["optional-dependencies"]["train"] if line.startswith("trl==")
    )
    assert metadata.version("trl") == pinned.split(";")[0].removeprefix("trl==").strip()
    trainer = GRPOTrainer
    assert list(inspect.signature(trainer._calculate_rewards).parameters) == [
        "self",
        "inputs",
        "prompts",
        "completions",
        "completion_ids_list",
    ]
    assert "rollout_func" in inspect.signature(trainer.__init__).parameters
    assert 'extra_fields.pop("env_mask"' in inspect.getsource(trainer._generate)


@pytest.mark.slow
@pytest.mark.numeric
def test_a_run_that_was_stopped_and_resumed_ends_with_the_same_weights(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    _uneven(monkeypatch)
    weights = []
    for name, limits in (("whole", [0]), ("halves", [1, 0])):
        run = _new_run(home / name, training={"steps": 3})
        for limit in limits:
            operation = run.config.operation.model_copy(update={"step_limit": limit})
            with TrainingRun(
                replace(run, config=run.config.model_copy(update={"operation": operation}))
            ) as training:
                trl_start.train(training)
        newest = training._checkpoints.newest(training.trainer_log.live)
        assert newest is not None
        folder = newest.policy
        weights.append(load_file(folder / "model.safetensors"))
    assert [step for step, *_ in live_steps(run.path)] == [1, 2, 3]
    assert all(torch.equal(tensor, weights[1][key]) for key, tensor in weights[0].items())


@pytest.mark.slow
def test_labels_are_the_same_from_memory_from_a_trace_file_and_after_a_resume(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    load = Chat.load
    recorded = []

    def brief(
        folder: Path, policy: Any = None
    ) -> Chat:  # every third token ends a reply, so that turns come to an end
        chat = load(folder, policy)
        chat.ends = frozenset(range(0, len(chat.tokenizer), 3)) | chat.ends
        return chat

    monkeypatch.setattr(Chat, "load", staticmethod(brief))
    for name, limits in (("whole", [0]), ("halves", [1, 0])):
        run = _new_run(home / name, training={"steps": 2})
        for limit in limits:
            operation = run.config.operation.model_copy(update={"step_limit": limit})
            with TrainingRun(
                replace(run, config=run.config.model_copy(update={"operation": operation}))
            ) as training:
                trl_start.train(training)
        recorded.append(live_steps(run.path))
        tasks = {task.id: scripted(task, "a label") for task in run.tasks}
        for step, _, groups in recorded[-1]:
            (file,) = (run.path / "traces").glob(f"step_{step:08d}.*")
            played = [
                Trace.from_json(orjson.loads(line))
                for line in gzip.decompress(file.read_bytes()).splitlines()
            ]
            told = [rollout.get("labels", []) for group in groups for rollout in group["rollouts"]]
            assert told == [
                list(diagnose(one, tasks[one.task], ENVIRONMENTS.load("desk"))) for one in played
            ]
            assert any(told)
    assert recorded[0] == recorded[1]


@pytest.mark.few(1, others="slow")
@pytest.mark.numeric
@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_our_group_advantages_are_those_that_trl_computes(
    home: Path, monkeypatch: pytest.MonkeyPatch, scale: str
):
    _uneven(monkeypatch)
    run = _new_run(home, training={"steps": 1, "advantage_scale": scale})
    theirs: list[torch.Tensor] = []
    ours: list[torch.Tensor] = []
    scored = GRPOTrainer._generate_and_score_completions
    replaced = trl_grpo.RunTrainer._generate_and_score_completions

    def watch(self, inputs):
        self.scale_rewards = scale
        output = scored(self, inputs)
        theirs.append(output["advantages"].clone())
        return output

    def keep(self, inputs):
        output = replaced(self, inputs)
        ours.append(output["advantages"])
        return output

    monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", watch)
    monkeypatch.setattr(trl_grpo.RunTrainer, "_generate_and_score_completions", keep)
    with TrainingRun(run) as training:
        trl_start.train(training)
    assert theirs[0].abs().max() > 0.1
    assert torch.allclose(ours[0], theirs[0], atol=1e-4)


def nothing_learned(estimate: advantages.AdvantageEstimate) -> list[np.ndarray]:
    return [np.zeros(seen.tokens) for seen in estimate.rollouts]


@pytest.mark.slow
@pytest.mark.numeric
def test_a_hook_decides_what_is_learnt_from_every_token(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    _uneven(monkeypatch)
    changed = {}
    for hook in ("", "tests.trainer.test_trl_grpo:nothing_learned"):
        run = _new_run(home / f"hook-{bool(hook)}", training={"steps": 1, "advantage_hook": hook})
        with TrainingRun(run) as training:
            trl_start.train(training)
        first, last = sorted((run.path / "checkpoints").glob("step_*"))
        before, after = (
            load_file(folder / "policy" / "model.safetensors") for folder in (first, last)
        )
        changed[hook] = any(not torch.equal(before[name], after[name]) for name in before)
        (norm,) = orjson.loads((last / "manifest.json").read_bytes())["curriculum"]["norms"]
        assert (norm > 0) == (hook == "")
    assert list(changed.values()) == [True, False]


@pytest.mark.slow
def test_dashboards_see_the_loop_beside_the_training(home: Path, monkeypatch: pytest.MonkeyPatch):
    _uneven(monkeypatch)
    seen: dict[int, dict[str, float]] = {}

    def board(opened, run, tag, step):
        return lambda numbers, step: seen.setdefault(step, {}).update(numbers)

    monkeypatch.setattr(reporters, "OPENED", {"json": board})
    run = _new_run(home)
    object.__setattr__(run.config.operation, "report_to", ("json",))
    with TrainingRun(run) as training:
        trl_start.train(training)
    assert list(seen) == [1, 2]
    first = seen[1]
    assert {"loss", "reward", "grad_norm"} <= first.keys()
    assert first["rods/pool/originals"] == 6 and first["rods/staging/waiting"] == 0
    assert sum(value for name, value in first.items() if name.startswith("rods/zone/")) == TASKS
