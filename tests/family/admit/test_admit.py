"""`rods admit`: what becomes of tasks of others, sound ones and ones with known defects."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pytest

from rods.analysis.containment import keys_in
from rods.buffers.audit.verify import verify
from rods.buffers.log.tail import read
from rods.buffers.run.runfolder import EXPANDED, SEEDS
from rods.buffers.state import read_state
from rods.calls import Call
from rods.config import Gates
from rods.console.main import run as rods
from rods.conversations import Rubric, Script
from rods.daemon.attempt_worker import AttemptWorker
from rods.daemon.authors.base import NO_CALLS
from rods.daemon.compute import GateCheck
from rods.environments.base import Environment, reference
from rods.environments.loading import Environments
from rods.errors import EXIT_FAILED, EXIT_OK, EXIT_REFUSED, EXIT_USER
from rods.family.admit.admitting import JUDGE, Admitting, Line
from rods.family.admit.task_faults import judge
from rods.family.triage.diagnoses import diagnose
from rods.family.triage.executed import execute
from rods.faults import Reason
from rods.gates import check
from rods.gates.ground_truth import replay, replayed
from rods.gates.similarity import SimilarityIndex
from rods.gates.unknowable import unknowable
from rods.gates.values import grounding
from rods.players import Players
from rods.tasks import OpenTask, Task, read_tasks, task_lines, write_task_file
from tests.daemon.runs import Daemon, Trainer, make_run, until
from tests.environments import desk_tasks, load
from tests.family.admit import worlds

GATES = Gates(profile=False)


class NoRun:
    held_out = SimilarityIndex()
    room = None


def kinds(environment: Environment, task: Task) -> list[str]:
    judged = judge(environment, GateCheck(task, NO_CALLS, GATES), NoRun())  # type: ignore[arg-type]
    return [
        kind
        for kind, reasons in judged.reasons.items()
        if not all(reason.doubt for reason in reasons)
    ]


@cache
def _sound() -> list[Task]:
    desk = load("desk")
    gates = Gates(profile=False)
    return [
        task
        for task in desk_tasks(7, 60, 0)
        if not check(desk, task, NO_CALLS, gates, SimilarityIndex()).rejections
    ]


def sound(count: int = 30) -> list[Task]:
    """Tasks of desk that the gates pass."""
    return _sound()[:count]


def changed(task: Task, **changes: Any) -> Task:
    return replace(task, id="", provenance={}, **changes)


def with_last(task: Task, change: Callable[[Call], Call]) -> Task:
    *turns, last = task.calls
    return changed(task, calls=(*turns, (*last[:-1], change(last[-1]))))


def admit(*arguments: object) -> tuple[int, list[dict[str, Any]]]:
    code = rods(["admit", *map(str, arguments)])
    out = Path(str(arguments[1])).with_suffix(".verdicts.jsonl")
    return code, [json.loads(line) for line in out.read_text().splitlines()]


def test_sound_tasks_have_no_fault_of_any_kind() -> None:
    assert [kinds(load("desk"), task) for task in sound()] == [[]] * len(sound())


def test_a_turn_whose_results_a_task_does_not_judge_is_earned_by_nothing_or_by_less() -> None:
    found = [set(kinds(load("desk"), changed(task, reads="state"))) for task in sound()]
    assert {"idle"} in found and {"near_miss"} in found
    assert set().union(*found) <= {"idle", "near_miss"}


def test_a_task_that_expects_nothing_is_earned_by_doing_nothing() -> None:
    task = sound(1)[0]
    assert "idle" in kinds(load("desk"), changed(task, calls=((),) * len(task.calls)))


def moved(environment: Environment, task: Task) -> Task:
    return changed(task, environment=reference(environment))


def no_such_thing(call: Call) -> Call:
    return Call("find_event", {"title": "zz"})


@pytest.mark.parametrize(
    ("world", "kind"), [(worlds.soft, "soft_failure"), (worlds.raising, "broken")]
)
def test_a_call_that_finds_nothing_is_named_however_its_world_tells_it(
    world: Callable[[], Environment], kind: str
) -> None:
    environment = world()
    task = moved(environment, with_last(sound(1)[0], no_such_thing))
    assert kind in kinds(environment, task)


def test_a_ground_truth_that_gives_other_results_each_time_is_named() -> None:
    environment = worlds.drifting()
    assert "unrepeatable" in kinds(environment, moved(environment, sound(1)[0]))


def test_a_task_for_another_version_of_the_world_is_named() -> None:
    other = replace(sound(1)[0].environment, hash="0" * 20)
    assert kinds(load("desk"), changed(sound(1)[0], environment=other)) == ["world"]


def test_no_line_ends_the_rest_and_each_has_a_verdict(tmp_path: Path) -> None:
    one, two, three = sound(3)
    broken = with_last(one, no_such_thing)
    bad = [b"{", b"[]", b'{"goal": 3}', b'{"messages": 1}', b"\xff"]
    file = tmp_path / "theirs.jsonl"
    file.write_bytes(b"\n".join([*bad, task_lines([broken, two, two, three]).rstrip()]))
    accepted = tmp_path / "accepted.jsonl"
    code, lines = admit("desk", file, "--accepted", accepted)
    assert code == EXIT_FAILED
    assert [line["line"] for line in lines] == list(range(1, 10))
    assert [line["kinds"][:1] for line in lines] == [
        *([["record"]] * len(bad)),
        ["replay"],
        [],
        ["duplicates"],
        [],
    ]
    assert [task.id for task in read_tasks(accepted)] == [two.id, three.id]


def leaking(task: Task) -> Task:
    return changed(task, script=(f"{task.script[0]} Use {task.tools[0]}.", *task.script[1:]))


def with_payment(task: Task, words: str, amount: float) -> Task:
    """A task that at its end pays into an account, a sum of which `words` speak."""
    payment = Call("add_income", {"account": "events", "amount": amount})
    text = f"{task.script[-1]} And put {words} into events as an income."
    return changed(
        task,
        script=(*task.script[:-1], text),
        calls=(*task.calls[:-1], (*task.calls[-1], payment)),
        tools=tuple({**dict.fromkeys(task.tools), "add_income": None}),
        later_tools={},
        type="base",
    )


def paying(words: str, amount: float) -> Task:
    """The first such task whose ground truth holds."""
    tasks = (with_payment(task, words, amount) for task in desk_tasks(5, 40, 0) if all(task.calls))
    return next(task for task in tasks if not replay(load("desk"), task))


def test_what_a_reader_may_see_otherwise_is_doubtful_and_refused_on_request_alone(
    tmp_path: Path,
) -> None:
    one, two, *_ = sound()
    secret = paying("our usual sum", 7345)
    seen = paying("half of 14690", 7345)
    file = tmp_path / "theirs.jsonl"
    write_task_file([leaking(one), secret, seen, two], file)
    accepted = tmp_path / "accepted.jsonl"
    _, lines = admit("desk", file, "--accepted", accepted)
    assert [(line["verdict"], line["kinds"][:1]) for line in lines] == [
        ("doubtful", ["leaks"]),
        ("refused", ["grounding"]),
        ("doubtful", ["grounding"]),
        ("accepted", []),
    ]
    assert not lines[0]["fault"] and "perhaps turn 0: the text names" in lines[0]["evidence"][0]
    assert [task.id for task in read_tasks(accepted)] == [two.id]
    _, lines = admit("desk", file, "--strict")
    assert [line["verdict"] for line in lines] == [*["refused"] * 3, "accepted"]


def test_the_same_task_once_more_is_refused_and_one_that_is_alike_doubted(tmp_path: Path) -> None:
    one, two, *_ = sound()
    doubtful = leaking(two)
    copies = [changed(task, system="Be brief.") for task in (one, doubtful)]
    alike = changed(one, script=(f"{one.script[0]} Thank you.", *one.script[1:]))
    file = tmp_path / "theirs.jsonl"
    write_task_file([one, doubtful, *copies, alike], file)
    _, lines = admit("desk", file)
    assert [(line["verdict"], line["kinds"][:1]) for line in lines] == [
        ("accepted", []),
        ("doubtful", ["leaks"]),
        ("refused", ["duplicates"]),
        ("refused", ["duplicates"]),
        ("doubtful", ["duplicates"]),
    ]
    assert lines[3]["evidence"][-1] == f"duplicates: it is task {doubtful.id} once more"


def test_what_triage_calls_a_fault_is_refused_and_nothing_that_it_calls_sound() -> None:
    desk = load("desk")
    players = Players(Environments())
    some = sound(8)
    broken = [with_last(task, no_such_thing) for task in some[:2]]
    unfair = [paying("our usual sum", 7345), paying("half of 14690", 7345)]
    for task in [*desk_tasks(7, 12, 12), *broken, *unfair, *map(leaking, some)]:
        diagnosis = diagnose(task, execute(players, task), {})
        assert bool(kinds(desk, task)) == diagnosis["fault"], diagnosis


def test_nobody_is_sure_that_what_stands_in_the_world_cannot_be_known() -> None:
    world = worlds.untried()
    verdicts = set()
    for task in sound():
        silent = moved(world, changed(task, script=("Please do it.",) * len(task.script)))
        results, _ = replayed(world, silent)
        assert results is not None
        unsaid = grounding(world, silent, results)
        sure = unknowable(world, silent, results, unsaid)
        held = keys_in(silent.state, keys=True)
        for reason in unsaid:
            assert reason.turn is not None and reason.call is not None
            call = silent.calls[reason.turn][reason.call]
            (value,) = (v for name, v in call.arguments.items() if f" {name}={v!r}," in reason.text)
            if isinstance(value, str):
                verdicts.add((value.casefold() in held, reason in sure))
    assert {(True, False), (False, True)} <= verdicts and (True, True) not in verdicts


def test_that_nothing_says_whether_an_open_task_can_be_solved_is_a_doubt() -> None:
    rubric = Rubric(("The bill is paid.",))
    desk = load("desk")
    task = OpenTask(reference(desk), "base", Script(("Pay it.",)), rubric, ("pay_bill",))
    judged = judge(desk, GateCheck(task, NO_CALLS, GATES), NoRun())  # type: ignore[arg-type]
    assert {kind: [r.doubt for r in reasons] for kind, reasons in judged.reasons.items()} == {
        "goal": [],
        "witness": [True],
        "contamination": [],
    }


def test_a_task_whose_id_is_of_another_hand_is_told_what_writes_it_anew(tmp_path: Path) -> None:
    file = tmp_path / "theirs.jsonl"
    file.write_bytes(orjson.dumps({**sound(1)[0].as_json(), "id": "0" * 20}))
    _, (line,) = admit("desk", file)
    (told,) = line["evidence"]
    assert told.startswith("record: id: ") and told.endswith("→ `rods data rehash` writes it anew")


def test_a_file_of_sound_tasks_is_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_task_file(sound(2), tmp_path / "theirs.jsonl")
    code, lines = admit("desk", tmp_path / "theirs.jsonl", "--json")
    printed = json.loads(capsys.readouterr().out)
    assert code == EXIT_OK and {line["verdict"] for line in lines} == {"accepted"}
    assert printed["verdicts"] == {"accepted": 2} and printed["kinds"] == {}


def test_what_is_given_or_held_out_is_not_admitted_again(tmp_path: Path) -> None:
    training = sound(3)
    held_out = [replace(training[1], split="test")]
    write_task_file([training[0], *held_out], tmp_path / "given.jsonl")
    write_task_file(training, tmp_path / "theirs.jsonl")
    _, lines = admit("desk", tmp_path / "theirs.jsonl", "--against", tmp_path / "given.jsonl")
    assert [line["kinds"] for line in lines] == [["duplicates"], ["contamination"], []]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (".", "is a folder"),
        ("/", "is a folder"),
        ("", "is a folder"),
        ("none.jsonl", "cannot read the task file"),
    ],
)
def test_what_is_no_file_of_tasks_is_named(
    name: str,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert rods(["admit", "desk", name]) == EXIT_USER
    assert said in capsys.readouterr().err


def test_a_file_without_a_line_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "theirs.jsonl").write_text("\n")
    assert rods(["admit", "desk", str(tmp_path / "theirs.jsonl")]) == EXIT_USER
    assert "holds no task" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--out", "none/v.jsonl"), "cannot be written"),
        (("--out", "."), "cannot be written"),
        (("--accepted", "none/a.jsonl"), "cannot be written"),
        (("--accepted", "theirs.jsonl"), "would be written over"),
        (("--accepted", "theirs.verdicts.jsonl"), "would be written over"),
        (("--accepted", "v.jsonl", "--out", "v.jsonl"), "would be written over"),
    ],
)
def test_where_nothing_can_be_written_nothing_is_judged(
    options: Sequence[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delattr(Admitting, "judged")
    write_task_file(sound(1), tmp_path / "theirs.jsonl")
    assert rods(["admit", "desk", "theirs.jsonl", *options]) == EXIT_USER
    assert words in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["theirs.jsonl"]


def test_what_another_has_staged_meanwhile_is_not_staged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", tasks=desk_tasks(7, 24, 8))
    theirs = [task for task in desk_tasks(8, 12, 0) if task.type == "base"]
    write_task_file(theirs[:1], tmp_path / "theirs.jsonl")
    arguments = ("desk", tmp_path / "theirs.jsonl", "--into", run.path)
    judged = Admitting.judged

    async def slow(gate: Admitting, lines: Iterator[Line]) -> list[Line]:
        done = await judged(gate, lines)
        monkeypatch.undo()
        await asyncio.to_thread(rods, ["admit", *map(str, arguments)])
        return done

    monkeypatch.setattr(Admitting, "judged", slow)
    _, lines = admit(*arguments)
    assert [line["verdict"] for line in lines] == ["accepted"]
    assert len(records(run.path / EXPANDED, "expanded")) == 1
    assert len(records(run.path / SEEDS, "admitted")) == 1


def test_a_verdict_holds_what_a_world_says_in_no_text() -> None:
    line = Line(1, None, {"broken": [Reason("it raised: \ud800")]})
    assert orjson.loads(orjson.dumps(line.as_json()))["evidence"] == ["broken: it raised: ?"]


def records(path: Path, kind: str) -> Sequence[Mapping[str, Any]]:
    return [record for record in read(path) if record["kind"] == kind]


def test_what_is_accepted_joins_a_run_as_a_variant_and_every_decision_is_derived_again(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "run", tasks=desk_tasks(7, 24, 8))
    known = {task.id for task in run.tasks}
    theirs = [task for task in desk_tasks(8, 12, 4) if task.type == "base" and task.id not in known]
    write_task_file(theirs, tmp_path / "theirs.jsonl")
    arguments = ("desk", tmp_path / "theirs.jsonl", "--into", run.path)
    _, lines = admit(*arguments, "--whose", "a generator")
    accepted = [line["task"] for line in lines if line["verdict"] == "accepted"]
    assert accepted and {"split"} < {kind for line in lines for kind in line["kinds"]} | {
        "split",
        "",
    }
    variants = records(run.path / EXPANDED, "expanded")
    assert [record["task"]["id"] for record in variants] == accepted
    assert {record["task"]["provenance"]["whose"] for record in variants} == {"a generator"}
    assert [record["task"] for record in records(run.path / SEEDS, "admitted")] == accepted
    _, again = admit(*arguments)  # nothing waits twice
    assert not [line for line in again if line["verdict"] == "accepted"]
    with Trainer(run) as trainer:
        trainer.play(8)
    assert [*read_state(run).pool.injected] == accepted[: len(read_state(run).pool.injected)] != []
    assert verify(run.path, replay=True).problems == []


@pytest.mark.slow
def test_a_run_whose_daemon_works_is_left_as_it_is(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    write_task_file(desk_tasks(8, 4, 0), tmp_path / "theirs.jsonl")
    daemon = Daemon(run.path)
    try:
        until((run.path / SEEDS).exists)
        code, lines = admit("desk", tmp_path / "theirs.jsonl", "--into", run.path)
        assert code == EXIT_REFUSED and len(lines) == 4
    finally:
        daemon.stop()
    assert not records(run.path / EXPANDED, "expanded")


def test_a_world_that_the_run_does_not_know_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    write_task_file(sound(1), tmp_path / "theirs.jsonl")
    code = rods(["admit", "bfcl", str(tmp_path / "theirs.jsonl"), "--into", str(run.path)])
    assert code in (EXIT_REFUSED, EXIT_USER)


def test_a_task_that_was_sent_to_another_process_opens_its_world() -> None:
    task = pickle.loads(pickle.dumps(sound(1)[0]))
    assert isinstance(task.state_bytes, bytes) and task.state_bytes == sound(1)[0].state_bytes


def test_a_worker_asks_the_judge_that_is_named(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    worker = AttemptWorker(run.path, run.config, SimilarityIndex())
    judged = worker.made(GateCheck(sound(1)[0], NO_CALLS, GATES, JUDGE))
    assert not any(judged.reasons.values()) and judged.task.provenance["results"]


@pytest.mark.needs("harbor")
def test_a_folder_is_refused_and_what_our_own_of_harbor_s_form_hold_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from rods.family.harbor.task_folders import write

    tasks = desk_tasks(5, 3, 0)
    folder = tmp_path / "exported"
    write(tasks, folder)
    assert rods(["admit", "desk", str(folder)]) == EXIT_USER
    assert "cat FOLDER/*/tests/task.json" in capsys.readouterr().err
    theirs = tmp_path / "theirs.jsonl"
    parts = sorted(folder.glob("*/tests/task.json"))
    theirs.write_bytes(b"".join(part.read_bytes() for part in parts))
    assert rods(["admit", "desk", str(theirs)]) in (EXIT_OK, EXIT_FAILED)
    lines = (tmp_path / "theirs.verdicts.jsonl").read_text().splitlines()
    verdicts = [json.loads(line) for line in lines]
    assert {one["task"] for one in verdicts} == {task.id for task in tasks}
    assert not any(one["fault"] for one in verdicts)
