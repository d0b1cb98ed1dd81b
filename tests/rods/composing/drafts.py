"""Drafts and tasks for the tests of composing, made from hand-written plans on desk."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any

from rods.composing import bind, task_types, wording
from rods.composing.catalogue import Catalogue, catalogue_for
from rods.composing.records import Draft, Plan, PlannedTurn
from rods.tasks import Task, TaskType
from tests.environments import load

DESK = load("desk")
STORY = {"story": "preparation", "topic": "picnic"}
STATE: dict[str, Any] = {
    "today": "tuesday",
    "contacts": {
        "ada": {"address": "box12", "team": "sales"},
        "ben": {"address": "box30", "team": "legal"},
        "uma": {"address": "box17", "team": "legal"},
    },
    "mail": {
        "inbox": {
            "m11": {"sender": "box12", "subject": "budget", "text": "not ready", "flagged": False},
            "m20": {"sender": "box17", "subject": "audit", "text": "sign today", "flagged": False},
        },
        "sent": {},
        "next": 24,
    },
    "calendar": {
        "events": {
            "e13": {"title": "picnic", "day": "tuesday", "hour": 9, "room": "oak", "guests": []},
            "e10": {"title": "launch", "day": "friday", "hour": 14, "room": "", "guests": []},
        },
        "next": 25,
    },
    "ledger": {
        "accounts": {"cash": 2000, "savings": 2000},
        "bills": {"i15": {"vendor": "acme", "amount": 120, "paid": False}},
        "next": 26,
    },
}


def desk() -> Catalogue:
    return catalogue_for(load("desk"))


def planned(*turns: Sequence[str], story: dict[str, str] | None = None) -> Plan:
    """A plan of desk recipes, one list a turn."""
    recipes = desk().recipes
    return Plan(
        tuple(
            PlannedTurn(tuple(names), tuple(tool for name in names for tool in recipes[name].tools))
            for names in turns
        ),
        STORY if story is None else story,
    )


def drafted(plan: Plan, seed: int = 0, state: dict[str, Any] | None = None) -> Draft:
    return bind.realise(
        DESK, desk(), plan, copy.deepcopy(state or STATE), bind.random_chooser(random.Random(seed))
    )


def made(plan: Plan, type: TaskType = "base", seed: int = 0) -> tuple[Task, Draft]:
    """A finished task of `plan`, worded as a whole."""
    draft = drafted(plan, seed)
    texts = wording.rewrite(desk(), draft, narrative=True, rng=random.Random(seed))
    return task_types.apply(desk(), DESK, draft, texts, type, random.Random(seed)), draft
