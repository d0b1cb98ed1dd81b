"""`rods env check` finds each broken promise of an environment."""

import re
import shutil
import time
from functools import cache
from itertools import chain, repeat
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from rods.calls import Call
from rods.environments.base import Result, reference
from rods.environments.loading import Environments
from rods.errors import BrokenEnvironment, InfrastructureError, UserError
from rods.tasks import Task
from rods.worlds.checking import CheckReport
from rods.worlds.checking.environments import Probe, check_environment
from tests.environments import ENVIRONMENTS, load
from tests.rods.toy_environment import World, environment, record

NAME = "tests.rods.toy_environment:"
TOY = environment()


probed = cache(check_environment)


@pytest.mark.few(1, others="slow")
@pytest.mark.parametrize("name", ["environment", "modest", "honestly_nondeterministic"])
def test_an_environment_that_keeps_its_word_has_no_fault(name):
    report = check_environment(NAME + name, ENVIRONMENTS)
    assert report.ok, report.lines()
    assert report.facts["call_us"] > 0 and report.facts["tools"] == report.facts["reached"] == 6
    assert any("no catalogue with a phrase book" in note for note in report.notes)


@pytest.mark.few("number", others="slow")
@pytest.mark.parametrize("number", ["book", "number"])
def test_a_recipe_that_never_runs_is_named(tmp_path, monkeypatch, template, number):
    for name in ("world.py", "catalogue.toml"):
        shutil.copy(template / name, tmp_path)
    catalogue = tmp_path / "catalogue.toml"
    whole = catalogue.read_text()
    catalogue.write_text(
        whole.replace('lend book=0.book member=1.member"', f'lend book=0.{number} member=1.member"')
    )
    monkeypatch.chdir(tmp_path)
    report = check_environment("world.py:environment", Environments())
    if number == "book":
        assert report.ok and not report.notes, report.lines()
        assert report.lines()[-1].endswith("recipes 15 of 15 ran in 15 fresh worlds)")
    else:
        (fault,) = report.faults
        assert fault.where == "recipe lend_book" and "ran in none of 20 fresh worlds" in fault.what
        assert "['number']" in fault.what and report.facts["recipes"].startswith("14 of 15 ran in")


def test_a_catalogue_that_cannot_be_read_is_a_fault_of_its_file(tmp_path, monkeypatch, template):
    for name in ("world.py", "catalogue.toml"):
        text = (template / name).read_text()
        (tmp_path / name).write_text(text.replace('"^free_book/free_book"', '"^free_book/"'))
    monkeypatch.chdir(tmp_path)
    (fault,) = check_environment("world.py:environment", Environments()).faults
    assert fault.where == f"{tmp_path}/catalogue.toml, recipes.lend_it.gives.lent_book"
    assert fault.remedy.startswith("end its source with /free_book")


@pytest.mark.few(5, others="slow")
@pytest.mark.parametrize(
    ("name", "where", "word"),
    [
        ("nondeterministic", "total", "for the same history"),
        ("shared", "titles", "for the same history"),
        ("leaking", "snapshot", "shares objects"),
        ("disturbed", "snapshot", "right after it"),
        ("twins", "fork", "feels what its origin does"),
        ("raising", "read", "raised LookupError"),
        ("lenient", "no_such_tool", "is None"),
        ("lenient", "write", "missing is accepted"),
        ("guessing", "snapshot", "lacking"),
        ("guessing", "fork", "lacking"),
        ("guessing", "same_state", "lacking"),
        ("restless", NAME + "restless", "another process says"),
        ("misdescribed", "total", "has the type 'str'"),
        ("misdescribed", "titles", "no maxLength"),
        ("misdescribed", "alias", "lists it as 'alias'"),
        ("misdescribed", "count", "lacks 'name' for"),
        ("neighbours", "count", "beside another instance"),
        ("late", "count", "for the same history"),
        ("runaway", "power", "did not end"),
        ("runaway", "repeat", "a result of 20000"),
    ],
)
def test_a_broken_promise_is_found(name, where, word):
    report = probed(NAME + name, ENVIRONMENTS)
    assert any(fault.where == where and word in fault.what for fault in report.faults), (
        report.lines()
    )
    assert all(fault.remedy for fault in report.faults)


def test_a_check_says_what_it_will_do_and_how_far_it_is_and_ends_in_time(tmp_path, monkeypatch):
    monkeypatch.setenv("RODS_CACHE", str(tmp_path))
    monkeypatch.setattr("rods.worlds.checking.environments.PROGRESS", 600.0)  # of this clock alone
    told: list[str] = []
    passed = chain([0.0], repeat(3.0, 60), repeat(700.0))
    clock = SimpleNamespace(monotonic=lambda: next(passed), perf_counter=time.perf_counter)
    monkeypatch.setattr("rods.worlds.checking.environments.time", clock)
    report = check_environment(NAME + "alarmed", ENVIRONMENTS, seconds=600.0, tell=told.append)
    assert "states to try: 1, each about 17 worlds × 6 tools × 11 calls" in told[0]
    assert "together 1,122 calls" in told[0]
    assert "ends within 600 s (--seconds)" in told[0]
    assert (
        re.fullmatch(r"state 1 of 1, calls, \w+: calls 2, faults \d+, 3 s", told[2])
        and len(told) == 62
    )
    assert [fault.what for fault in report.faults if "raised LookupError" in fault.what], (
        "what was found stands"
    )
    assert "cut short after 600 s in state 1 of 1, calls, " in report.faults[-1].what
    assert report.facts["calls"] == 61


def test_a_check_that_was_cut_short_says_what_it_knows_of_each_tool_and_goes_on(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("RODS_CACHE", str(tmp_path))
    monkeypatch.setattr("rods.worlds.checking.environments.PROGRESS", 600.0)  # of this clock alone

    def checked(calls):
        passed = chain([0.0], repeat(3.0, calls), repeat(700.0))
        clock = SimpleNamespace(monotonic=lambda: next(passed), perf_counter=time.perf_counter)
        monkeypatch.setattr("rods.worlds.checking.environments.time", clock)
        told: list[str] = []
        return check_environment(NAME + "timed", ENVIRONMENTS, seconds=600, tell=told.append), told

    whole, _ = checked(10**6)
    assert not list(tmp_path.rglob("*.json"))
    first, _ = checked(4)
    verdicts = first.facts["verdicts"].values()
    assert len(verdicts) == 6 and 1 <= list(verdicts).count("not tried") < 6
    assert any(note.startswith("not tried: ") for note in first.notes)
    assert "it goes on from there" in first.faults[-1].remedy
    reports: list[tuple[CheckReport, list[str]]] = []
    while not reports or list(tmp_path.rglob("*.json")):  # an end of a report, and no other
        assert len(reports) < 20
        reports.append(checked(400))
    assert len(reports) > 1 and "goes on behind state 1 of 1" in reports[1][1][0]
    last = reports[-1][0]
    assert {fault.where for fault in last.faults} == {fault.where for fault in whole.faults}
    assert "not tried" not in last.facts["verdicts"].values()


def test_a_factory_that_fails_is_reported():
    with pytest.raises(UserError, match="raised RuntimeError: no data"):
        check_environment(NAME + "broken", ENVIRONMENTS)


@pytest.mark.slow
def test_given_tasks_lend_calls_and_must_hold(tmp_path):
    sound = Task.from_json(record())
    failing = Task.from_json(
        record(goal={"calls": [[], [{"name": "read", "arguments": {"note_id": 7}}]]})
    )
    assert check_environment(TOY.name, ENVIRONMENTS, [sound]).ok
    assert "no note 7" in check_environment(TOY.name, ENVIRONMENTS, [sound, failing]).faults[0].what


def test_an_order_of_keys_that_counts_is_noted():
    ordered = load(NAME + "ordered")
    notes = {"7": {"title": "a", "body": ""}, "8": {"title": "b", "body": ""}}
    where = {"name": ordered.name, "hash": ordered.hash}
    goal = {"calls": [[], [{"name": "titles", "arguments": {}}]]}
    task = Task.from_json(record(environment=where, goal=goal, state={"notes": notes}))
    assert any(
        "keys are in another order" in note
        for note in check_environment(ordered.name, ENVIRONMENTS, [task]).notes
    )


def test_an_unknown_environment_is_a_user_error():
    with pytest.raises(UserError, match="unknown environment"):
        check_environment("nowhere", ENVIRONMENTS)


def test_a_tool_that_a_given_task_calls_was_reached():
    picky = load(NAME + "picky")
    counting = (Call("count", {"name": "the seventh teapot", "amount": 2}),)
    other = [
        Task(reference(picky), "base", (f"Total {n}?",), ((Call("total"),),), ("total",))
        for n in range(2)
    ]
    tasks = [
        *other,
        Task(
            reference(picky), "base", ("Count the seventh teapot, twice.",), (counting,), ("count",)
        ),
    ]
    alone = probed(NAME + "picky", ENVIRONMENTS)
    given = check_environment(NAME + "picky", ENVIRONMENTS, tasks)
    assert any("never answered without an error: count; give tasks" in note for note in alone.notes)
    assert given.ok and not any("never answered" in note for note in given.notes), given.lines()


def test_where_no_tool_works_nothing_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        World, "call", lambda self, call: Result("Error: closed today", error="tool")
    )
    report = check_environment(NAME + "environment", ENVIRONMENTS)
    (fault,) = [fault for fault in report.faults if fault.field == "tools"]
    assert "no tool answered without an error" in fault.what and "--tasks" in fault.remedy


def test_a_worker_that_was_killed_is_no_fault_of_its_world():
    probe = Probe(environment())
    killed = Mock(side_effect=InfrastructureError("a worker process was killed"))
    for act in (killed, lambda: probe.call(Mock(call=killed), Call("titles"))):
        with pytest.raises(InfrastructureError, match="was killed"), probe.guarded("world"):
            act()
    assert not probe.faults
    with probe.guarded("world"):
        raise BrokenEnvironment("environment 'world' raised KeyError")
    assert [fault.what for fault in probe.faults] == [
        "raised BrokenEnvironment: environment 'world' raised KeyError"
    ]


@pytest.mark.parametrize(("slow", "named"), [(("find_contact",), True), ((), False)])
def test_a_tool_is_slow_beside_others_and_never_where_the_machine_is(
    slow: tuple[str, ...], named: bool
) -> None:
    """As on a machine on which each call takes 50 ms, and one in which one tool alone does."""
    probe = Probe(load("desk"))
    for name in [*load("desk").tools()] * 300:
        probe.seconds["call"].append(0.05 if name in slow or not slow else 0.0001)
        probe._account(name)
    assert probe.hung == set(slow) and bool(probe.faults) is named
    assert all("find_contact" in str(fault) for fault in probe.faults)
