"""A task is its content: the id follows it, files are read line by line, and every fault has a
place."""

import copy
import pickle
import tracemalloc

import orjson
import pytest

from rods.calls import Call, parse_python_call
from rods.canonical import canonical, content_id, keyed_random
from rods.errors import UserError
from rods.tasks import EnvironmentRef, Task, read_tasks, state_json, task_lines


def make(**changes):
    fields = {
        "environment": EnvironmentRef("desk", "h"),
        "type": "miss_func",
        "script": ("first", "second", "third"),
        "calls": ((Call("ls", {}),), (), (Call("sort", {"name": "a", "by": 5}),)),
        "tools": ("ls", "sort"),
        "later_tools": {2: ("sort",)},
        "state": {"files": ["a"]},
    }
    return Task(**{**fields, **changes})


def test_json_round_trip_keeps_id_and_bytes(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(
        task_lines([make(split="test", provenance={"why": "x"}), make(script=("a", "b", "c"))])
    )
    read = read_tasks(path)
    assert task_lines(read) == path.read_bytes()
    assert read[0] == make(split="test", provenance={"why": "x"})


def test_a_task_s_state_refuses_changes_and_copies_may_change():
    state = make().state
    changes = [
        lambda: state.__setitem__("files", []),
        lambda: state.__delitem__("files"),
        lambda: state.update(more=1),
        lambda: state.setdefault("more", 1),
        lambda: state.pop("files"),
        lambda: state.popitem(),
        lambda: state.clear(),
        lambda: state.__ior__({"more": 1}),
    ]
    for change in changes:
        with pytest.raises(TypeError, match="never changes"):
            change()
    assert state == {"files": ["a"]} == orjson.loads(state.json)
    for copied in (dict(state), copy.deepcopy(state), {**state}, state | {}):
        assert type(copied) is dict
    copied = copy.deepcopy(state)
    copied["files"].append("b")
    assert orjson.loads(state_json(copied)) == {"files": ["a", "b"]}, "a copy's JSON is its own"
    assert pickle.loads(pickle.dumps(state)).json == state.json


def test_a_state_s_json_is_written_once():
    state = make().state
    assert state.json is state_json(state) is state.json


def test_what_a_task_was_given_may_be_changed_afterwards():
    state = {"files": ["a"]}
    provenance = {"why": ["x"]}
    task = make(state=state, provenance=provenance)
    state["files"].append("b")
    provenance["why"].append("y")
    assert (task.state, task.provenance) == ({"files": ["a"]}, {"why": ["x"]})


def test_tasks_hold_little_more_than_their_lines(tmp_path):
    def large(number):
        items = [{"id": f"i{number}-{item}", "amount": item} for item in range(100)]
        return make(state={"items": items}, provenance={"results": items})

    path = tmp_path / "tasks.jsonl"
    path.write_bytes(task_lines(map(large, range(400))))
    tracemalloc.start()
    try:
        tasks = read_tasks(path)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert dict(tasks[7].state or {})["items"][3] == {"id": "i7-3", "amount": 3}
    assert held < 2 * path.stat().st_size, "the objects of 64 states are kept, of the others JSON"


def test_id_hashes_content_and_ignores_split_and_provenance():
    assert make().id == make(split="test", provenance={"seed": 1}).id
    changed = [
        make(script=("a", "b", "c")),
        make(state=None),
        make(later_tools={}),
        make(type="base"),
        make(tools=("ls", "sort", "rm")),
    ]
    five = make(calls=((Call("ls", {}),), (), (Call("sort", {"name": "a", "by": 5.0}),)))
    assert len({task.id for task in [make(), five, *changed]}) == len(changed) + 2


def test_what_a_task_says_of_its_reads_is_part_of_it_and_of_schema_2(tmp_path):
    path = tmp_path / "tasks.jsonl"
    tasks = [make(reads=reads) for reads in ("asked", "all", "state", ((0, 0), (2, 0)), ())]
    path.write_bytes(task_lines([make(), *tasks]))
    assert read_tasks(path) == [make(), *tasks]
    records = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    assert [record["schema"] for record in records] == [1, 2, 2, 2, 2, 2]
    assert [record["goal"].get("reads") for record in records] == [
        None, "asked", "all", "state", [[0, 0], [2, 0]], [],
    ]  # fmt: skip
    assert len({task.id for task in (make(), *tasks)}) == 6
    assert [task.places for task in tasks] == [None, None, None, ((0, 0), (2, 0)), ()]


def test_tasks_that_say_nothing_of_their_reads_keep_their_ids():
    ids = (make().id, make(script=("a", "b", "c")).id, make(system="Be brief.").id)
    assert ids == ("bd1c61afdb9e31689293", "3fda14a9fbd3b05220d6", "90389341e289d4ec9ec4")


def test_held_out_tools_appear_in_their_turn():
    task = make()
    assert [task.tools_at(turn) for turn in range(3)] == [("ls",), ("ls",), ("ls", "sort")]


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (lambda r: r.update(typ="x"), "typ: is no known field"),
        (lambda r: r.update(schema=2), "schema"),
        (lambda r: r.update(type="easy"), "type"),
        (lambda r: r.update(split="dev"), "split"),
        (lambda r: r.update(state=[1]), "state"),
        (lambda r: r.pop("user"), "user"),
        (lambda r: r["user"].update(script=["a"]), "1 user turns but 3"),
        (lambda r: r["goal"].update(calls=[[{"name": 1}], [], []]), "name"),
        (lambda r: r["goal"].update(reads="some"), "goal.reads"),
        (lambda r: r.update(schema=2) or r["goal"].update(reads=[[0, 1]]), "[0, 1]"),
        (lambda r: r.update(schema=2) or r["goal"].update(reads=[[1, 0]]), "[1, 0]"),
        (lambda r: r.pop("id") and r["goal"].update(reads="all"), "'schema' is 1"),
        (lambda r: r["tools"].update(held_out={"7": ["sort"]}), "turn 7"),
        (lambda r: r["tools"].update(held_out={"2": ["rm"]}), "rm"),
        (lambda r: r["tools"].update(held_out=None), "tools.held_out: "),
        (lambda r: r.update(provenance=None), "provenance: "),
        (lambda r: r.update(provenance=["x"]), "provenance: "),
        (lambda r: r["environment"].pop("hash"), "environment.hash"),
        (lambda r: r["user"].update(script=["edited", "b", "c"]), "was edited"),
    ],
)
def test_a_bad_line_is_named_with_file_and_line(tmp_path, edit, complaint):
    path = tmp_path / "tasks.jsonl"
    record = orjson.loads(orjson.dumps(make().as_json()))
    edit(record)
    path.write_bytes(task_lines([make(state=None)]) + b"\n" + orjson.dumps(record) + b"\n")
    with pytest.raises(UserError) as error:
        read_tasks(path)
    assert (
        f"{path}:3" in str(error.value)
        and complaint in str(error.value)
        and "→" in str(error.value)
    )


def test_duplicate_ids_and_missing_files_are_refused(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(task_lines([make(), make()]))
    with pytest.raises(UserError, match="repeats line 1"):
        read_tasks(path)
    with pytest.raises(UserError, match="cannot read the task file"):
        read_tasks(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), {"a": [float("nan")]}, {1: 2}, 2**70, "\ud800"]
)
def test_what_json_cannot_say_is_refused_not_changed(value):
    with pytest.raises(ValueError, match="not canonical JSON"):
        canonical(value)


def test_canonical_json_ignores_key_order_and_keeps_number_types():
    assert content_id({"a": 1, "b": 2}) == content_id({"b": 2, "a": 1})
    assert content_id([5]) != content_id([5.0])


def test_keyed_randomness_depends_on_every_part_of_its_key():
    keys: list[tuple[int, str, int | str]] = [
        (0, "a", 1),
        (1, "a", 1),
        (0, "b", 1),
        (0, "a", 2),
        (0, "a", "1"),
    ]
    draws = {keyed_random(*key).random() for key in keys}
    assert len(draws) == 5
    assert keyed_random(0, "a", 1).random() == keyed_random(0, "a", 1).random()


def test_python_calls_are_read_as_literals_and_positions_are_bound():
    call = parse_python_call(
        "sort('a.txt', by=[1, (2.0, None)], deep=-3)", {"sort": ("name", "by")}
    )
    assert call == Call("sort", {"name": "a.txt", "by": [1, [2.0, None]], "deep": -3})
    assert parse_python_call(str(call), {}) == call


@pytest.mark.parametrize(
    "text",
    [
        "os.system('x')",
        "f(g(1))",
        "f(__import__('os'))",
        "f(a + 1)",
        "f(**{})",
        "f(1)",
        "f(a=1, a=2)",
        "f(",
        "f",
        "f(a=" + "[" * 1000 + "]" * 1000 + ")",
        "f(a='" + "x" * 30_000 + "')",
        "f(a=b'x')",
        "f(a={1: 2})",
    ],
)
def test_anything_but_one_literal_call_is_refused(text):
    with pytest.raises(ValueError):
        parse_python_call(text, {})
