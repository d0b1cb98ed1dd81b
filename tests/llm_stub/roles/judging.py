"""Verification, judge and diagnosis. They accept, but for a share of samples that the judge rejects on a whim, so that
the refinement has something to do."""

from __future__ import annotations

import random
from typing import Any

from tests.llm_stub.roles.reading import Asked

OBJECTS = 0.06  # share of samples that the judge rejects
FIXABLE = 0.7  # of these, whose fault lies in the words
CRITERIA = ("alignment", "consistency", "coherence", "naturalness", "structure")


def verify(asked: Asked, chance: random.Random) -> dict[str, Any]:
    return {"verdict": ["aligned"] * int(asked.fields["count"]), "problem": ""}


def judge(asked: Asked, chance: random.Random) -> dict[str, Any]:
    verdicts: dict[str, Any] = dict.fromkeys(CRITERIA, "pass")
    objects = chance.random() < OBJECTS
    if objects:
        verdicts[chance.choice(CRITERIA)] = "fail"
    verdicts["issue"] = "The second half reads as if it were in a hurry." if objects else ""
    if asked.fields["diagnosis"]:
        verdicts |= classify(asked, chance) if objects else {"fault": "none", "turn": 0}
    return verdicts


def classify(asked: Asked, chance: random.Random) -> dict[str, Any]:
    return {"fault": "query_fixable" if chance.random() < FIXABLE else "gt_unfixable", "turn": 1}


ROLES = {"query_verification": verify, "judge_quality": judge, "refine_classify": classify}
