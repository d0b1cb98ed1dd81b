"""A stub's roles that fail now and then, with a mark in what they say: so one sees which prompts
repeat it."""

from __future__ import annotations

import json
from typing import Any
from zlib import crc32

from bench.fixtures.llm_stub import roles
from rods.daemon.stand_ins.author import CRITERIA
from rods.daemon.stand_ins.model import read, written

MARK = "zzmark"


def answer(request: dict[str, Any]) -> str:
    """As the roles of the stub say; every third answer is unreadable, or a verification or a judge
    that objects."""
    chance = crc32(json.dumps(request, sort_keys=True).encode())
    asked = read(request)
    if asked is None or chance % 3:
        return roles.answer(request)
    mark = f"{MARK}{chance:08x}"
    constrained = asked.schema is not None
    if asked.template == "query_verification":
        count = int(asked.fields["count"])
        return written(
            {"verdict": ["misaligned"] * count, "problem": f"{mark} is asked for"},
            constrained=constrained,
        )
    if asked.template == "judge_quality":
        fault = {"fault": "gt_unfixable", "turn": 1} if asked.fields["diagnosis"] else {}
        found = {
            **dict.fromkeys(CRITERIA, "pass"),
            "consistency": "fail",
            "issue": f"{mark} is wrong",
            **fault,
        }
        return written(found, constrained=constrained)
    return f"{mark} is all that I can say"


def clumsy(request: dict[str, Any]) -> str:
    """As the roles of the stub say; every other judge finds the first turn clumsy."""
    asked = read(request)
    fault: dict[str, Any] = {"fault": "query_fixable", "turn": 1}
    if asked is not None and asked.template == "refine_classify":
        return written(fault, constrained=asked.schema is not None)
    if (
        asked is None
        or asked.template != "judge_quality"
        or crc32(json.dumps(request, sort_keys=True).encode()) % 2
    ):
        return roles.answer(request)
    found = {
        **dict.fromkeys(CRITERIA, "pass"),
        "naturalness": "fail",
        "issue": "The first turn is clumsy.",
    }
    return written(
        {**found, **(fault if asked.fields["diagnosis"] else {})},
        constrained=asked.schema is not None,
    )
