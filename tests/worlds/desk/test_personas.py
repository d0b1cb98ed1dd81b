"""Desk's users who are played: what their query leaves out has to be asked for, and checks say what
comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rods import dialects
from rods.calls import Call
from rods.config import Data
from rods.conversations import Persona
from rods.environments.base import checks
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import Reply, Trace
from rods.episode.goals import goal_of, holds
from rods.gates.ground_truth import unjudgeable
from rods.gates.similarity import SimilarityIndex
from rods.tasks import AnyTask, OpenTask
from rods.worlds import desk
from rods.worlds.desk import pools
from rods.worlds.desk.checks import brought
from rods.worlds.sources import load_tasks
from tests.environments import load

DESK = load("desk")
COMPACT = dialects.load("compact")
BEFORE = {
    "contacts": {"ada": {"address": "box10", "team": "sales"}},
    "calendar": {
        "events": {"e10": {"title": "audit", "day": "monday", "hour": 9, "room": "", "guests": []}},
        "next": 11,
    },
    "mail": {
        "inbox": {
            "m10": {"sender": "box12", "subject": "launch", "text": "not ready", "flagged": False}
        },
        "sent": {},
        "next": 11,
    },
    "files": {"memo": {"folder": "drafts", "text": "not ready", "locked": False, "shared": []}},
    "ledger": {
        "accounts": {"cash": 100, "taxes": 50},
        "bills": {"i10": {"vendor": "acme", "amount": 20, "paid": False}},
        "next": 11,
    },
}
# A call, and the checks that say what it changes in `BEFORE`.
BROUGHT = [
    ("change_address name=ada address=box11", ["contact_has_address name=ada address=box11"]),
    ("change_team name=ada team=legal", ["contact_is_in name=ada team=legal"]),
    (
        "add_contact name=ben address=box11 team=press",
        ["contact_has_address name=ben address=box11", "contact_is_in name=ben team=press"],
    ),
    ("move_event event=e10 day=friday hour=9", ["event_is_at title=audit day=friday hour=9"]),
    ("create_event title=launch day=friday hour=8", ["event_is_at title=launch day=friday hour=8"]),
    ("book_room event=e10 room=oak", ["event_has_room title=audit room=oak"]),
    ("invite_guest event=e10 address=box30", ["event_has_guest title=audit address=box30"]),
    (
        "send_mail address=box30 subject=audit text=soon",
        ["mail_was_sent address=box30 subject=audit text=soon"],
    ),
    ("reply_mail mail=m10 text=soon", ["mail_was_sent address=box12 subject=launch text=soon"]),
    ("move_file file=memo folder=old", ["file_is_in file=memo folder=old"]),
    ("write_file file=memo text=soon", ["file_says file=memo text=soon"]),
    ("share_file file=memo address=box30", ["file_is_shared file=memo address=box30"]),
    (
        "copy_file file=memo copy=map",
        ["file_is_in file=map folder=drafts", "file_says file=map text=not_ready"],
    ),
    (
        "transfer_money amount=40 source=cash target=taxes",
        ["account_holds account=cash amount=60", "account_holds account=taxes amount=90"],
    ),
    ("add_bill vendor=zenith amount=20", ["bill_is_entered vendor=zenith amount=20"]),
    (
        "pay_bill bill=i10 account=cash",
        ["account_holds account=cash amount=80", "bill_is_paid bill=i10"],
    ),
]
POOLS: dict[str, Sequence[str | int]] = {
    "address": pools.ADDRESSES,
    "amount": pools.AMOUNTS,
    "day": pools.DAYS,
    "folder": pools.FOLDERS,
    "hour": pools.HOURS,
    "room": pools.ROOMS,
    "team": pools.TEAMS,
    "text": pools.TEXTS,
}
UNSAID = [
    "remove_contact name=ada",
    "cancel_event event=e10",
    "flag_mail mail=m10",
    "delete_mail mail=m10",
]
UNSAID += ["lock_file file=memo"]


def _call(text: str) -> Call:
    name, *arguments = text.split()
    pairs = (argument.split("=") for argument in arguments)
    return Call(
        name,
        {key: int(value) if value.isdigit() else value.replace("_", " ") for key, value in pairs},
    )


@pytest.mark.parametrize(
    ("call", "said"), BROUGHT, ids=lambda value: value.split()[0] if isinstance(value, str) else ""
)
def test_what_a_call_changes_is_said_by_checks_that_are_false_before_and_true_after(
    call: str, said: list[str]
) -> None:
    instance = DESK.reset(BEFORE)
    before = instance.snapshot()
    fresh = instance.fork()
    assert instance.call(_call(call)).error is None
    found = brought(before, instance.snapshot())
    assert found is not None and list(found) == [_call(text) for text in said]
    for check in found:
        assert holds(instance, check) and not holds(fresh, check)
        for name in check.arguments:
            other = replace(check, arguments={**check.arguments, name: _other(name)})
            assert not holds(instance, other), f"{other} says something else"


def _other(name: str) -> str | int:
    values: dict[str, str | int] = {
        "day": "tuesday",
        "hour": 17,
        "team": "support",
        "room": "elm",
        "folder": "weekly",
        "amount": 399,
    }
    return values.get(name, "x1")


def test_every_check_but_one_is_among_them_and_other_changes_are_said_by_none() -> None:
    named = {text.split()[0] for _, said in BROUGHT for text in said}
    assert named | {"file_exists"} == checks(DESK).keys()
    for text in UNSAID:
        instance = DESK.reset(BEFORE)
        before = instance.snapshot()
        assert (
            instance.call(_call(text)).error is None
            and brought(before, instance.snapshot()) is None
        )
    assert brought(before, before) == ()


@pytest.fixture(scope="module")
def tasks() -> list[OpenTask]:
    return desk.generate_personas(3, 60, 20)


def _persona(task: AnyTask) -> Persona:
    assert isinstance(task, OpenTask) and isinstance(task.user, Persona)
    return task.user


def played(tasks: Sequence[OpenTask], replies: Sequence[Sequence[str]]) -> list[Trace]:
    left = [iter(each) for each in replies]
    jobs = [Job(task, DESK, COMPACT, goal_of(DESK, task)) for task in tasks]
    return run_lockstep(
        jobs, lambda waiting: [Reply(next(left[place], "done")) for place, _ in waiting]
    )


def _calls(task: OpenTask) -> list[str]:
    return [COMPACT.write([Call.from_json(call)]) for call in task.provenance["calls"]]


def test_the_same_arguments_give_the_same_tasks_apart_from_each_other(
    tasks: list[OpenTask],
) -> None:
    assert (
        desk.generate_personas(3, 60, 20) == tasks
        and desk.generate_personas(3, 0, 20) == tasks[60:]
    )
    assert [task.split for task in tasks] == ["train"] * 60 + (["validation"] + ["test"] * 4) * 4
    index = SimilarityIndex()
    for task in tasks:
        assert index.find(task) is None and not unjudgeable(DESK, task)
        index.add(task)


def test_what_is_left_out_is_said_when_it_is_asked_for_and_never_before(
    tasks: list[OpenTask],
) -> None:
    asked = [f"which {task.provenance['missing']['domain']} ?" for task in tasks]
    traces = played(
        tasks,
        [[question, *_calls(task), "done"] for question, task in zip(asked, tasks, strict=True)],
    )
    for task, trace in zip(tasks, traces, strict=True):
        value = str(task.provenance["missing"]["value"])
        texts = [message.content for message in trace.messages if message.role == "user"]
        assert trace.binary == 1 and trace.end == "finished"
        assert len(texts) == 2 and value not in texts[0].split() and value in texts[1]


def test_a_guess_does_not_do(tasks: list[OpenTask]) -> None:
    """Of every task: the same calls with another value of its kind fail a check."""
    guesses = []
    for task in tasks:
        gap = task.provenance["missing"]
        state = DESK.reset(task.state).snapshot()
        guess = []
        there = {"contact": tuple(state["contacts"]), "account": tuple(state["ledger"]["accounts"])}
        other = next(one for one in {**POOLS, **there}[gap["domain"]] if one != gap["value"])
        right = DESK.reset(task.state)
        wrong = DESK.reset(task.state)
        instead = {gap["value"]: other}
        for call in task.provenance["calls"]:
            given = call["arguments"]
            changed = {name: instead.get(value, value) for name, value in given.items()}
            guess.append(COMPACT.write([Call(call["name"], changed)]))
            shown = (
                world.call(Call(call["name"], made)).value
                for world, made in ((right, given), (wrong, changed))
            )
            expected, seen = shown
            instead |= {
                _first(value): _first(seen.get(name))
                for name, value in expected.items()
                if value != seen.get(name)
            }
        guesses.append([*guess, "done"])
    assert [
        task.id for task, trace in zip(tasks, played(tasks, guesses), strict=True) if trace.binary
    ] == []


def _first(value: Any) -> Any:
    """What a call takes from a result: the only one of a list."""
    return next(iter(value), None) if isinstance(value, list) else value


def test_mute_users_know_nothing_and_are_the_same_in_all_else(tasks: list[OpenTask]) -> None:
    mute = desk.generate_personas(3, 60, 20, mute=True)
    assert mute[60:] == tasks[60:]
    for one, other in zip(mute[:60], tasks[:60], strict=True):
        assert not _persona(one).knows and one.id != other.id
        assert replace(one, user=other.user, id="") == other


def test_a_run_takes_them_by_name(tasks: list[OpenTask]) -> None:
    for name, mute in (("desk-personas", False), ("desk-personas-mute", True)):
        data = Data(tasks=name, train=3, held_out=2, random_seed=3)
        assert load_tasks(data, Path()) == desk.generate_personas(3, 3, 2, mute=mute)
