"""`rods data check` names every fault with line, field and remedy."""

import shutil
from pathlib import Path

import orjson
import pytest

from rods.config import Sandbox
from rods.console.main import run
from rods.environments.loading import Environments
from rods.errors import RodsError, UserError
from rods.tasks import Task, read_tasks, scripted
from rods.worlds.checking.task_files import check_file, rehashed
from tests.environments import ENVIRONMENTS, load
from tests.rods.toy_environment import environment, record

NAME = "tests.rods.toy_environment:"
TOY = environment()


def check(tmp_path, *lines):
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(
        b"\n".join(line if isinstance(line, bytes) else orjson.dumps(line) for line in lines)
    )
    return check_file(path, ENVIRONMENTS)


def fields(report):
    return {(int(fault.where.rpartition(":")[2]), fault.field) for fault in report.faults}


def test_a_sound_file_has_no_fault_and_is_counted(tmp_path):
    report = check(tmp_path, record(), b"", record(split="test", state={"counters": {"tea": 1}}))
    assert report.ok and report.faults == ()
    assert report.facts["tasks"] == 2 and report.facts["splits"] == {"train": 1, "test": 1}
    assert report.lines()[-1].endswith("no fault (tasks 2)")


def test_all_faults_of_all_lines_are_named(tmp_path):
    report = check(
        tmp_path,
        b'{"schema": 1,',
        record(typ="base", type="hard", split="dev", user={"script": ["hello", 5]}),
        record(
            goal={"calls": [[{"name": "write", "arguments": []}]]},
            tools={"names": ["write", "write"]},
        ),
        b"[]",
        {"schema": 1},
    )
    assert fields(report) >= {
        (1, ""),
        (2, "typ"),
        (2, "type"),
        (2, "split"),
        (2, "user.script[1]"),
        (3, "goal.calls[0][0].arguments"),
        (3, "tools.names"),
        (4, ""),
        (5, "environment"),
        (5, "tools"),
    }
    assert all(fault.remedy for fault in report.faults)
    assert any("did you mean 'type'?" in line for line in report.lines())


def test_held_out_tools_must_fit_type_turns_and_names(tmp_path):
    def tools(held_out):
        return {"names": ["write", "read", "count"], "held_out": held_out}

    report = check(
        tmp_path,
        record(type="miss_func"),
        record(tools=tools({"1": ["count"]})),
        record(type="miss_func", tools=tools({"x": ["read"]})),
        record(type="miss_func", tools=tools({"9": ["count"]})),
        record(type="miss_func", tools=tools({"1": ["sort"]})),
        record(type="miss_func", tools=tools({"1": ["write"]})),
    )
    assert fields(report) == {
        (1, "tools.held_out"),
        (2, "tools.held_out"),
        (3, "tools.held_out"),
        (4, ""),
        (5, ""),
        (6, "goal.calls"),
    }
    text = "\n".join(report.lines())
    assert "held out until turn 9" in text and "['sort'] are not among the task's tools" in text
    assert "held out until turn 1" in report.lines()[-2]


def test_ground_truth_is_replayed_and_the_environment_asked(tmp_path):
    report = check(
        tmp_path,
        record(goal={"calls": [[], [{"name": "read", "arguments": {"note_id": 7}}]]}),
        record(state={"counter": {}}),
        record(tools={"names": ["write", "read", "fly"]}),
        record(environment={"name": TOY.name, "hash": "0"}),
        record(environment={"name": "nowhere", "hash": "0"}),
        record(environment={"name": NAME + "broken", "hash": "0"}),
        record(goal={"calls": [[], [{"name": "total", "arguments": {}}]]}),
        record(provenance={"results": [['{"note_id":101}'], ["something else"]]}),
    )
    assert fields(report) == {
        (1, "goal.calls"),
        (2, "state"),
        (3, "tools.names"),
        (4, "environment.hash"),
        (5, "environment.name"),
        (6, "environment.name"),
        (7, "goal.calls"),
        (8, "goal.calls"),
    }
    text = "\n".join(report.lines())
    assert (
        "no note 7" in text
        and "unknown parts ['counter']" in text
        and "recorded was 'something else'" in text
    )


def test_an_environment_that_raises_is_reported_not_suffered(tmp_path):
    raising = load(NAME + "raising")
    read_nothing = {"calls": [[], [{"name": "read", "arguments": {"note_id": 7}}]]}
    report = check(
        tmp_path,
        record(environment={"name": raising.name, "hash": raising.hash}, goal=read_nothing),
    )
    assert (
        "raised LookupError" in report.faults[0].what
        and "rods env check" in report.faults[0].remedy
    )


def test_repeated_and_edited_tasks_are_found(tmp_path):
    sound = Task.from_json(record())
    report = check(
        tmp_path, record(), record(split="test"), {**record(type="miss_param"), "id": sound.id}
    )
    assert fields(report) == {(2, ""), (3, "id")}
    assert "line 1" in report.faults[0].what


def test_an_edited_task_is_told_what_renews_its_id_and_what_else_is_wrong_with_it(tmp_path):
    wrong = {"calls": [[], [{"name": "read", "arguments": {"note_id": 7}}]]}
    path = tmp_path / "tasks.jsonl"
    report = check(tmp_path, {**record(), "id": "0" * 20}, {**record(goal=wrong), "id": "1" * 20})
    assert fields(report) == {(1, "id"), (2, "id"), (2, "goal.calls")}
    assert [fault.field for fault in report.faults] == ["id", "goal.calls", "id"]
    assert all("rods data rehash" in fault.remedy for fault in report.faults if fault.field == "id")
    path.write_bytes(orjson.dumps({**record(), "id": "0" * 20}))
    assert rehashed(path, ENVIRONMENTS)[0].facts == {"tasks": 1, "new hashes": 0, "new ids": 1}


def test_a_world_that_has_changed_is_one_fault_with_the_number_of_tasks(tmp_path):
    old = {"name": TOY.name, "hash": "0"}
    report = check(
        tmp_path, *(record(environment=old, state={"counters": {"tea": n}}) for n in range(3))
    )
    assert fields(report) == {(1, "environment.hash")} and len(report.faults) == 1
    assert report.faults[0].what.endswith("(so in 3 tasks)")


def test_a_world_that_is_not_trusted_is_one_fault_with_the_number_of_tasks(tmp_path):
    name = {"name": str(tmp_path / "world.py:environment"), "hash": "0"}
    path = tmp_path / "tasks.jsonl"
    tasks = (record(environment=name, state={"counters": {"tea": n}}) for n in range(3))
    path.write_bytes(b"\n".join(map(orjson.dumps, tasks)))
    (fault,) = check_file(path, Environments(trust=False)).faults
    assert fault.field == "environment.name" and fault.what.endswith("(so in 3 tasks)")
    assert "--trust" in fault.remedy


def test_overlaps_of_the_given_splits_are_noted_and_no_fault(tmp_path):
    report = check(tmp_path, record(), record(split="test", type="miss_param"))
    assert report.ok
    assert [overlap["rule"] for overlap in report.facts["overlaps"]] == [
        "ground_truth",
        "state",
        "query",
        "query",
    ]
    assert [note.partition(";")[0] for note in report.notes[:3]] == [
        f"1 training tasks match held-out ones by their {rule}"
        for rule in ("ground truth", "state", "query")
    ]
    assert "first line 1: its ground truth equals that of task" in report.notes[0]


def test_a_world_that_many_tasks_share_is_one_note(tmp_path):
    texts = [
        {"script": [f"Number {n}: {word * 3}", f"{word} again, number {n}"]}
        for n, word in enumerate("abcdefgh")
    ]
    report = check(
        tmp_path,
        *(record(user=user, split="train" if n < 4 else "test") for n, user in enumerate(texts)),
    )
    assert len(report.facts["overlaps"]) == 32, "4 × 4 pairs, by state and by ground truth"
    assert sum("match held-out ones" in note for note in report.notes) == 2
    assert any(
        note.startswith("4 training tasks match held-out ones by their state")
        for note in report.notes
    )


def test_a_missing_or_empty_file_is_told(tmp_path):
    with pytest.raises(UserError, match="cannot read"):
        check_file(tmp_path / "none.jsonl", ENVIRONMENTS)
    assert "holds no task" in check(tmp_path, b"").lines()[0]


def test_tasks_are_renewed_for_the_world_as_it_is_now(tmp_path):
    path = tmp_path / "tasks.jsonl"
    old = Task.from_json(
        record(environment={"name": TOY.name, "hash": "before"}, provenance={"by": "hand"})
    )
    unhashed = record(split="test", state={"counters": {"tea": 1}}, environment={"name": TOY.name})
    path.write_bytes(orjson.dumps(old.as_json()) + b"\n\n" + orjson.dumps(unhashed))
    assert not check_file(path, ENVIRONMENTS).ok
    report, lines = rehashed(path, ENVIRONMENTS)
    assert report.ok and report.facts == {"tasks": 2, "new hashes": 2, "new ids": 2}
    path.write_bytes(lines)
    assert check_file(path, ENVIRONMENTS).ok
    one, other = (scripted(task, "this test") for task in read_tasks(path))
    assert one.id != old.id and one.provenance == {"by": "hand"} and one.script == old.script
    assert (other.split, other.environment.hash) == ("test", TOY.hash)
    assert rehashed(path, ENVIRONMENTS)[0].facts == {"tasks": 2, "new hashes": 0, "new ids": 0}


def test_a_ground_truth_that_no_longer_holds_is_a_fault_of_its_line(tmp_path):
    path = tmp_path / "tasks.jsonl"
    wrong = record(
        environment={"name": TOY.name},
        goal={"calls": [[{"name": "read", "arguments": {"note_id": 7}}], []]},
    )
    path.write_bytes(b"\n".join(map(orjson.dumps, (record(), wrong, {"schema": 1}))) + b"\n{")
    before = path.read_bytes().splitlines()
    report, lines = rehashed(path, ENVIRONMENTS)
    assert {(line, field) for line, field in fields(report)} >= {
        (2, "goal.calls"),
        (3, "environment"),
        (4, ""),
    }
    assert report.facts["tasks"] == 1 and report.facts["left as they were"] == 3
    right, *wrong_ones = lines.splitlines()
    assert orjson.loads(right)["id"] and wrong_ones == before[1:]
    # what is right is written all the same
    assert run(["data", "rehash", str(path), "--trust"]) == 1
    assert path.read_bytes() == lines


def test_tasks_that_are_judged_at_the_end_are_looked_over(tmp_path):
    desk = load("desk")
    persona = {"intent": "Pay it.", "query": "Please pay a bill.", "turns": 4}
    sound = {
        "schema": 2,
        "environment": {"name": "desk", "hash": desk.hash},
        "type": "base",
        "user": {"persona": persona},
        "goal": {"checks": [{"name": "bill_is_paid", "arguments": {"bill": "i13"}}]},
        "tools": {"names": ["pay_bill"]},
    }
    rubric = {
        **sound,
        "user": {"script": ["Hello."]},
        "goal": {"rubric": ["It is polite."]},
        "system": "Be kind.",
    }
    report = check(tmp_path, sound, rubric, record())
    assert report.ok and report.facts["tasks"] == 3
    report = check(
        tmp_path,
        {**sound, "goal": {"checks": [{"name": "bill_is_torn"}]}},
        {**sound, "user": {"persona": {**persona, "turns": 0}}},
        {**sound, "schema": 1},
        {**sound, "goal": {"calls": [[]]}},
    )
    assert fields(report) == {(1, "goal"), (2, ""), (3, ""), (4, "")}
    assert (
        "no check 'bill_is_torn' (it has account_holds, bill_is_entered, bill_is_paid,"
        in report.lines()[0]
    )
    (tmp_path / "tasks.jsonl").write_bytes(orjson.dumps({**sound, "environment": {"name": "desk"}}))
    report, lines = rehashed(tmp_path / "tasks.jsonl", ENVIRONMENTS)
    assert not report.ok or orjson.loads(lines)["environment"]["hash"] == desk.hash


@pytest.mark.parametrize("verb", ["check", "rehash"])
def test_the_code_of_a_world_that_tasks_name_runs_only_when_it_is_trusted(
    tmp_path, monkeypatch, capsys, template, verb
):
    assert template.is_dir() and run(["init", str(tmp_path / "ours")]) == 0
    shutil.copytree(tmp_path / "ours", tmp_path / "theirs")
    monkeypatch.chdir(tmp_path / "theirs")
    ran = Path("ran")
    with Path("world.py").open("a") as world:
        world.write(f"\nfrom pathlib import Path\nPath({str(ran.absolute())!r}).touch()\n")
    before = Path("tasks.jsonl").read_bytes()
    assert run(["data", verb, "tasks.jsonl"]) == 1
    said = "".join(capsys.readouterr())
    assert (
        "environment 'world.py:environment': these tasks have its code run" in said
        and "add --trust" in said
    )
    assert not ran.exists() and Path("tasks.jsonl").read_bytes() == before
    assert run(["data", verb, "tasks.jsonl", "--trust"]) in (0, 1)
    assert ran.exists()


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("desk", False),
        ("os:abort", True),
        ("theirs.py:world", True),
        pytest.param("theirs.json", True, marks=pytest.mark.needs("mcp")),
        pytest.param("theirs.openenv.json", True, marks=pytest.mark.needs("openenv")),
        ("nowhere", False),
        (f"environments/{'a' * 20}/world.py:environment", False),
        ("confined.py:world", False),
    ],
)
def test_what_needs_trust(name, refused):
    try:
        Environments(Sandbox(environments=("confined.py:world",)), trust=False).load(name)
        why = ""
    except RodsError as error:
        why = str(error)
    assert ("add --trust" in why) is refused, why


def test_a_world_that_cannot_be_made_or_ends_its_program_costs_its_own_tasks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("boom.py").write_text("def environment():\n    raise OSError('no data')\n")
    Path("ends.py").write_text("import sys\n\n\ndef environment():\n    sys.exit(3)\n")
    Path("script.py").write_text("raise SystemExit(2)\n")
    names = ("boom.py:environment", "ends.py:environment", "script.py:environment", "nowhere")
    bad = [record(environment={"name": name, "hash": "x"}) for name in names]
    report = check(tmp_path, record(), *bad, record(split="test", state={"counters": {"tea": 1}}))
    assert fields(report) == {(line, "environment.name") for line in (2, 3, 4, 5)}
    assert report.facts["splits"] == {"train": 5, "test": 1}
