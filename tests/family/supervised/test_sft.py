"""Supervised learning: demonstrations from ground truth, from witnesses and from a teacher, as text
for others and as weights for a run."""

import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

import orjson
import pytest
import torch
from datasets import load_dataset
from safetensors.torch import load_file
from trl import data_utils

from bench.fixtures.chat_templates import saved
from rods import dialects
from rods.config import PolicySettings, read_config
from rods.conversations import Persona
from rods.dialects import Message
from rods.environments.loading import Environments
from rods.episode.engine import Outcome, StepTrace, Trace, TurnTrace
from rods.errors import EXIT_OK, EXIT_USER
from rods.family.benchmarks.main import run as rods_eval
from rods.family.supervised.sft import _exported, demonstrate, encode_rounds, fault, taught
from rods.tasks import OpenTask, scripted, task_lines
from rods.trainer import torch_settings
from rods.trainer.chat import Chat
from rods.trainer.main import run
from rods.trainer.nano import model as network
from rods.trainer.nano.supervised import Encoded, encode, fit, in_batches
from rods.worlds import desk
from rods.worlds.sources import load_tasks
from tests.console.test_disks import in_namespace
from tests.environments import ENVIRONMENTS
from tests.family.benchmarks.test_tasks import answering
from tests.family.environments.procedural.drawn import drawn_tasks
from tests.trainer.nano_parts import chat
from tests.trainer.runs import write_config


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """An untrained model with a tokenizer, as a folder."""
    folder = tmp_path / "base"
    talk = chat()
    network.fresh(talk.tokenizer, 1).save_pretrained(folder)
    talk.tokenizer.save_pretrained(folder)
    return folder


def config(folder: Path, base: Path, **changes: object) -> Path:
    values = {
        "data.tasks": "desk-small",
        "data.train": 16,
        "policy.kind": "transformers",
        "policy.model": str(base),
        "policy.dialect": "compact",
        "rollouts.max_context_tokens": 900,
    }
    return write_config(folder / "c.toml", values | changes)


@pytest.mark.parametrize("dialect", ["tags", "hermes", "compact"])
def test_demonstrations_resolve_every_turn_of_all_four_types(
    dialect: Literal["tags", "hermes", "compact"],
) -> None:
    tasks = desk.generate(5, 16, 0)
    assert {task.type for task in tasks} == {"base", "long_context", "miss_func", "miss_param"}
    traces = demonstrate(tasks, PolicySettings(kind="simulated", dialect=dialect), ENVIRONMENTS)
    assert all(trace.binary and trace.end == "finished" for trace in traces)


def test_the_export_is_the_common_chat_format_without_held_out_tasks(
    tmp_path: Path, base: Path
) -> None:
    file = tmp_path / "demonstrations.jsonl"
    assert run(["sft", "--config", str(config(tmp_path, base)), "--export", str(file)]) == EXIT_OK
    lines = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    assert len(lines) == 16 and {line["split"] for line in lines} == {"train"}
    roles = [message["role"] for message in lines[0]["messages"]]
    assert (
        roles[:3] == ["system", "user", "assistant"]
        and roles[-1] == "assistant"
        and "tool" in roles
    )


def test_other_tools_read_the_export_and_see_the_tokens_that_a_rollout_would(
    tmp_path: Path, base: Path
) -> None:
    file = tmp_path / "demonstrations.jsonl"
    asked = config(tmp_path, base)
    assert run(["sft", "--config", str(asked), "--export", str(file)]) == EXIT_OK
    rows = load_dataset(
        "json", data_files=str(file), split="train", cache_dir=str(tmp_path / "cache")
    )
    said = read_config(asked)
    talk = Chat.load(base)
    tasks = [
        scripted(task, "a demonstration")
        for task in load_tasks(said.data, tmp_path)
        if task.split == "train"
    ]
    for row, trace in zip(rows, demonstrate(tasks, said.policy, ENVIRONMENTS), strict=True):
        assert data_utils.is_conversational(row)
        shown = data_utils.apply_chat_template({"messages": row["messages"]}, talk.tokenizer)[
            "text"
        ]
        tokens, _ = encode(talk, trace)
        assert talk.tokens(shown)[: len(tokens)] == tokens


@pytest.mark.slow
def test_warming_up_lowers_the_loss_and_leaves_a_folder_that_a_run_can_start_from(
    tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "warm"
    file = config(tmp_path, base)
    arguments = [
        "sft",
        "--config",
        str(file),
        "--out",
        str(out),
        "--passes",
        "12",
        "--sequences",
        "4",
    ]
    assert run([*arguments, "--learning-rate", "0.003"]) == EXIT_OK
    losses = [
        float(line.rpartition(" ")[2])
        for line in capsys.readouterr().err.splitlines()
        if "loss" in line
    ]
    assert losses[-1] < losses[0] / 2
    before, after = (load_file(folder / "model.safetensors") for folder in (base, out))
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert run(["sft", "--config", str(file), "--out", str(out)]) == EXIT_USER  # never written over
    started = config(
        tmp_path,
        out,
        **{"training.steps": 1, "training.batch_tasks": 2, "rollouts.max_reply_tokens": 8},
    )
    assert run([str(tmp_path / "run"), "--config", str(started)]) == EXIT_OK


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize(("size", "learnt"), [("64k", False), ("", True)])
def test_a_disk_without_room_for_the_policy_is_one_line_and_leaves_nothing(
    tmp_path: Path, base: Path, size: str, learnt: bool
) -> None:
    """Before anything is learnt where the disk says so, and in the end where another has filled it
    meanwhile."""
    disk = tmp_path / "disk"
    log = tmp_path / "said"
    weights = (base / "model.safetensors").stat().st_size
    disk.mkdir()
    log.touch()
    wait = f"until grep -q loss {log}; do sleep 0.01; done"
    fill = f"head -c 200000 /dev/zero > {disk}/other"
    mount = f"mount -t tmpfs -o size={weights + 100_000 if learnt else size} none {disk} || exit 77"
    sft = (
        f"{sys.executable} -m rods.trainer sft --config {config(tmp_path, base)} --out {disk}/warm "
        f"--passes 2"
    )
    meanwhile = f"({wait}; {fill}) &" if learnt else ""
    done = in_namespace(
        f"{mount}; {meanwhile} {sft} 2> {log}; echo code $?; cat {log} >&2; ls {disk}"
    )
    assert "code 2" in done.stdout and "warm" not in done.stdout.rpartition("code 2")[2]
    (told,) = [line for line in done.stderr.splitlines() if "cannot write the policy" in line]
    assert (
        told.endswith("→ make room, or name another folder") and ("loss" in done.stderr) is learnt
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"policy.kind": "nano"}, "no base model"),
        ({"rollouts.max_context_tokens": 20}, "fit the context"),
    ],
)
def test_what_cannot_be_warmed_up_is_told(
    tmp_path: Path,
    base: Path,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, object],
    said: str,
) -> None:
    file = config(tmp_path, base, **changes)
    assert run(["sft", "--config", str(file), "--out", str(tmp_path / "x")]) == EXIT_USER
    assert said in capsys.readouterr().err


@pytest.fixture
def generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[OpenTask]:
    """Tasks in a drawn world, in both modes, with the tools of their witnesses alone; the current
    folder is theirs."""
    folder = tmp_path / "worlds"
    folder.mkdir()
    monkeypatch.chdir(folder)
    found = []
    for task in drawn_tasks(folder, 1, 4, ("told", "asked")):
        used = tuple(dict.fromkeys(each["name"] for each in task.provenance["witness"]))
        found.append(replace(task, tools=used, system="", id=""))
    (folder / "tasks.jsonl").write_bytes(task_lines(found))
    return found


def witnessed(tasks: Sequence[OpenTask]) -> list[Trace]:
    with Environments() as environments:
        return demonstrate(tasks, PolicySettings(kind="simulated", dialect="hermes"), environments)


def replies(trace: Trace) -> list[str]:
    return [message.content for message in trace.messages if message.role == "assistant"]


@pytest.mark.needs("sandbox")
def test_a_scenario_s_witness_is_a_demonstration_in_both_modes(generated: list[OpenTask]) -> None:
    for task, trace in zip(generated, witnessed(generated), strict=True):
        assert trace.binary and trace.end == "finished"
        calls = [
            call.as_json() for turn in trace.turns for step in turn.steps for call in step.calls
        ]
        wanted = [
            {"name": each["name"], "arguments": each["arguments"]}
            for each in task.provenance["witness"]
        ]
        assert calls == wanted
        if isinstance(task.user, Persona) and task.user.knows:
            assert any(reply.endswith("?") for reply in replies(trace))


@pytest.mark.slow
def test_a_teacher_behind_an_endpoint_is_imitated_but_for_its_faults(
    tmp_path: Path, base: Path, generated: list[OpenTask], capsys: pytest.CaptureFixture[str]
) -> None:
    traces = witnessed(generated)
    known = {
        tuple(one.content for one in trace.messages[:place]): message.content
        for trace in traces
        for place, message in enumerate(trace.messages)
        if message.role == "assistant"
    }
    malformed, idle = (trace.messages[1].content for trace in traces[:2])

    def teacher(messages: Sequence[Message]) -> str:
        told = messages[1].content
        if told == malformed and len(messages) == 2:
            return '<tool_call>{"name": </tool_call>'
        return (
            known.get(tuple(one.content for one in messages), "That cannot be done.")
            if told != idle
            else "No."
        )

    with answering(teacher) as url:
        played = [
            "run",
            "taught",
            "--tasks",
            "tasks.jsonl",
            "--split",
            "train",
            "--url",
            url,
            "--model",
            "m",
        ]
        assert rods_eval([*played, "--patience", "5"]) == EXIT_OK
    changes = {
        "data.tasks": "tasks.jsonl",
        "data.train": 0,
        "data.held_out": 0,
        "policy.dialect": "hermes",
    }
    file = config(
        Path(),
        base,
        **changes,
        **{"rollouts.max_context_tokens": 20_000, "operation.micro_batch": 2},
    )
    told = [
        "sft",
        "--config",
        str(file),
        "--teacher",
        "taught",
        "--rounds",
        "--export",
        "rounds.jsonl",
    ]
    assert run([*told, "--out", "warm", "--passes", "1", "--sequences", "8"]) == EXIT_OK
    said = capsys.readouterr().err
    wanted = traces[2:]
    assert (
        f"{len(wanted)} of {len(traces)} episodes" in said
        and "1 format" in said
        and "1 impossible" in said
    )
    lines = [orjson.loads(line) for line in Path("rounds.jsonl").read_bytes().splitlines()]
    assert sorted(line["completion"][0]["content"] for line in lines) == sorted(
        reply for trace in wanted for reply in replies(trace)
    )
    assert all(
        data_utils.is_conversational(line) and line["prompt"][-1]["role"] != "assistant"
        for line in lines
    )
    assert f"of {-(-len(lines) // 8)}:" in said  # one pass over every sample, the last ones too
    assert any(
        not torch.equal(one, load_file("warm/model.safetensors")[name])
        for name, one in load_file(base / "model.safetensors").items()
    )
    other = config(Path(), base, **changes | {"policy.dialect": "compact"})
    assert run(["sft", "--config", str(other), "--teacher", "taught", "--out", "x"]) == EXIT_USER
    assert "dialect" in capsys.readouterr().err
    kept = taught(Path("taught"), generated[2:], dialects.load("hermes"))
    # no other task's, held-out ones' say
    assert {trace.task for trace in kept} == {task.id for task in generated[2:]}


@pytest.mark.needs("sandbox")
def test_each_reply_is_learnt_once_token_by_token(generated: list[OpenTask]) -> None:
    talk = chat()
    for trace in witnessed(generated[:2]):
        whole, mask = encode(talk, trace)
        rounds = encode_rounds(talk, trace, dialects.load("hermes"))
        assert len(rounds) == len(replies(trace))
        learnt: list[int] = []
        for (tokens, own), reply in zip(rounds, replies(trace), strict=True):
            written = [*talk.tokens(reply), talk.tokenizer.eos_token_id]
            assert (
                own == [0] * (len(tokens) - len(written)) + [1] * len(written)
                and tokens[-len(written) :] == written
            )
            # this template appends: what was before is what a rollout saw
            assert tokens == whole[: len(tokens)]
            learnt += range(len(tokens) - len(written), len(tokens))
        # the same tokens, each once
        assert learnt == [place for place, one in enumerate(mask) if one]


def test_a_template_that_drops_earlier_reasoning_drops_it_from_the_history_alone() -> None:
    talk = chat()
    dropping = Chat(talk.tokenizer, Path("dropping"))
    was = talk.tokenizer.chat_template
    kept = "<|assistant|>{{ message.content }}"
    assert kept in was
    talk.tokenizer.chat_template = was.replace(
        kept, "<|assistant|>{{ message.content.split('</think>')[-1] }}"
    )
    said = [
        Message("system", "a"),
        Message("user", "b"),
        Message("assistant", "<think>1 2 3</think>done"),
    ]
    said += [Message("user", "c"), Message("assistant", "<think>4 5</think>done")]
    trace = Trace("t", (), "finished", 1, tuple(said))
    first, second = encode_rounds(dropping, trace, dialects.load("hermes"))
    assert first[0][first[1].index(1) :] == [
        *talk.tokens("<think>1 2 3</think>done"),
        talk.tokenizer.eos_token_id,
    ]
    shown = talk.text(second[0][: second[1].index(1)])
    assert "done" in shown and "1 2 3" not in shown
    assert second[0][second[1].index(1) :] == [
        *talk.tokens("<think>4 5</think>done"),
        talk.tokenizer.eos_token_id,
    ]


def test_what_of_a_teacher_is_not_imitated() -> None:
    good = Trace("t", (TurnTrace((StepTrace("x"),)),), "finished", 4, outcome=Outcome(2, 4))
    assert fault(good) is None and fault(good, 0.5) is None and fault(good, 0.6) == "below least"
    assert fault(replace(good, outcome=Outcome(0, 4))) == fault(good, held=2) == "impossible"
    assert (
        fault(replace(good, end="length")) == fault(replace(good, end="step_limit")) == "unfinished"
    )
    assert (
        fault(replace(good, turns=(TurnTrace((StepTrace("x", error="no call"), StepTrace("y"))),)))
        == "format"
    )


def test_short_conversations_weigh_no_more_than_long_ones() -> None:
    """Three in four samples have 3 tokens to learn, the others 30: so have their first tokens, each
    weighed by the mean over its batch. A batch of 16 with few long ones weighs its tokens a little
    more; with batches of one length it were 97 %."""
    samples: list[Encoded] = [
        *[([7] * 6, [0] * 3 + [1] * 3)] * 300,
        *[([7] * 60, [0] * 30 + [1] * 30)] * 100,
    ]
    weights = {3: 0.0, 30: 0.0}
    for _, own in in_batches(0, [samples], 16, random.Random(1)):
        for mask in own:
            weights[int(mask.sum())] += 1 / int(own.sum())
    assert 0.75 <= weights[3] / sum(weights.values()) < 0.82


@pytest.mark.numeric
def test_a_pass_shows_every_sample_once_and_small_backward_passes_add_up_to_the_whole() -> None:
    samples: list[Encoded] = [([7] * length, [0, *[1] * (length - 1)]) for length in range(3, 14)]
    batches = list(in_batches(0, [samples], 4, random.Random(1), rest=True))
    assert [len(ids) for ids, _ in batches].count(4) == 2 and sum(
        len(ids) for ids, _ in batches
    ) == 11
    assert sorted(int(own.sum()) for _, mask in batches for own in mask) == list(range(2, 13))
    weights = []
    losses = []
    for micro_batch in (0, 1):
        model = network.fresh(chat().tokenizer, 1)
        seen = list[float]()
        fit(
            model,
            iter(batches),
            torch_settings.make_optimizer("adamw", model, 1e-3),
            steps=3,
            warm_up=1,
            progress=lambda step, of, loss, seen=seen: seen.append(loss),  # type: ignore[misc]
            micro_batch=micro_batch,
        )
        losses.append(seen)
        weights.append(model.get_output_embeddings().weight.detach())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert torch.allclose(weights[0], weights[1], atol=1e-4)


@pytest.mark.parametrize("name", ["gptoss", "qwen3_5_think", "glm4moe", "llama3_1"])
def test_a_models_own_form_is_taught_as_rollouts_see_it_and_as_its_template_renders_it(
    tmp_path: Path, name: str
) -> None:
    folder = saved(tmp_path / "policy", name)
    policy = PolicySettings(kind="transformers", model=str(folder))
    tasks = desk.generate(3, 2, 0, "small")
    dialect = dialects.load("native", folder=policy.model)
    assert dialect.name == "native"
    (trace, *_) = demonstrate(tasks, policy, ENVIRONMENTS)
    talk = Chat.load(folder, policy)
    tokens, mask = encode(talk, trace)
    own = talk.tokenizer.decode([t for t, learnt in zip(tokens, mask, strict=True) if learnt])
    steps = [step for turn in trace.turns for step in turn.steps]
    assert len(steps) > 2
    for step in steps:
        assert step.text in own
    ends = [tokens[place] for place, (a, b) in enumerate(pairwise([*mask, 0])) if a > b]
    assert len(ends) == len(steps) and set(ends) <= talk.ends
    rounds = encode_rounds(talk, trace, dialect)
    assert rounds[0][0] == tokens[: len(rounds[0][0])]
    (line,) = _exported(tasks[0], trace, dialect, False)
    whole = talk.tokenizer.apply_chat_template(
        line["messages"], tools=line["tools"], tokenize=False
    )
    last = rounds[-1][0][: rounds[-1][1].index(1)]
    shown = talk.tokenizer.decode(last).removesuffix(talk.opening)
    assert whole.startswith(shown[: shown.rfind("assistant")])
    called = [message for message in line["messages"] if message.get("tool_calls")]
    assert len(called) == sum(bool(step.calls) for step in steps)
