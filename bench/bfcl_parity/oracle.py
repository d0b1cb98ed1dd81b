"""BFCL's own executor and checker in a process of their own: what our verdicts are compared with,
turn by turn.

It runs in a `Worker`, because the executor evaluates text; it is sent only calls that this project
wrote. The official checker stops at the first failing turn; here its parts (`state_checker`,
`response_checker`, the emptiness rule) run for every turn, and then the whole checker as it is.
Within a rollout the policy's and the ground truth's worlds share the objects that
`rods.family.benchmarks.bfcl.scorer` tells of; `isolated` separates the two, so that a difference
that comes from nothing else can be told from a real one.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rods.family.benchmarks.bfcl.scorer import Official
from rods.tasks import TASK_TYPES
from rods.worlds.bfcl.tasks import records

ORACLE = "bench.bfcl_parity.oracle:answer"
CHECKER = "bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker"


class Oracle(Official):
    """The modules of the wheel and its 800 entries with their ground truth."""

    def __init__(self, wheel: str) -> None:
        super().__init__(wheel)
        self.checker: Any = importlib.import_module(CHECKER)
        self.entries: dict[str, dict[str, Any]] = {}
        self.truths: dict[str, list[list[str]]] = {}
        for category in TASK_TYPES:
            for entry, truth in zip(*records(Path(wheel), category), strict=True):
                self.entries[entry["id"]] = entry
                self.truths[entry["id"]] = truth

    def execute(
        self, calls: Sequence[str], entry: dict[str, Any], name: str
    ) -> tuple[list[str], dict[str, Any]]:
        results, instances = self.utils.execute_multi_turn_func_call(
            list(calls),
            entry["initial_config"],
            entry["involved_classes"],
            name,
            entry["id"],
            long_context="long_context" in entry["id"],
            is_evaL_run=True,
        )
        return results, instances

    def judge(
        self, entry_id: str, turns: list[list[list[str]]], isolated: bool, texts: bool
    ) -> dict[str, Any]:
        """The parts of the check for every turn, and the verdicts of the whole checker (isolated:
        of its parts)."""
        entry = self.entries[entry_id]
        truth = self.truths[entry_id]
        self.mend()
        outcomes: list[dict[str, Any]] = []
        so_far: list[str] = []
        for turn, (steps, expected_calls) in enumerate(zip(turns, truth, strict=True)):
            mine: list[str] = []
            _, instances = self.execute([], entry, "policy")
            for step in steps:
                mine += self._run(step, entry, "policy", isolated)
            expected = self._run(expected_calls, entry, "truth", isolated)
            _, expected_instances = self.execute([], entry, "truth")
            so_far += mine
            outcomes.append(
                {
                    "empty": self.utils.is_empty_execute_response(steps),
                    "state": self.checker.state_checker(instances, expected_instances)["valid"],
                    "response": self.checker.response_checker(so_far, expected, turn)["valid"],
                    "results": mine if texts else digest(mine),
                    "expected": expected if texts else digest(expected),
                }
            )
        self.forget()
        self.mend()
        if isolated:  # the whole checker cannot be parted, but this is what it does
            official = all(
                not expected or (not outcome["empty"] and outcome["state"] and outcome["response"])
                for expected, outcome in zip(truth, outcomes, strict=True)
            )
        else:
            official = self.checker.multi_turn_checker(turns, truth, entry, "", "whole")["valid"]
        self.forget()
        abstains = self.checker.multi_turn_irrelevance_checker(turns, truth)["valid"]
        return {"turns": outcomes, "official": official, "strict": official and abstains}

    def errors(self, entry_id: str, turns: list[list[list[str]]]) -> list[str | None]:
        """The types of error that the checker and its check of turns without ground truth name;
        None for none."""
        entry = self.entries[entry_id]
        truth = self.truths[entry_id]
        self.mend()
        found = self.checker.multi_turn_checker(turns, truth, entry, "", "errors")
        self.forget()
        self.mend()
        return [
            found.get("error_type"),
            self.checker.multi_turn_irrelevance_checker(turns, truth).get("error_type"),
        ]

    def check(
        self, entry: dict[str, Any], truth: list[list[str]], turns: list[list[list[str]]]
    ) -> bool:
        """The whole checker's verdict on `turns` for an entry that is not among the wheel's own.
        Mends nothing: what the classes share goes on from entry to entry, as in a run of the
        benchmark."""
        valid: bool = self.checker.multi_turn_checker(turns, truth, entry, "", "variant")["valid"]
        self.forget()
        return valid

    def _run(
        self, calls: Sequence[str], entry: dict[str, Any], name: str, isolated: bool
    ) -> list[str]:
        if not isolated:
            return self.execute(calls, entry, name)[0]
        results: list[str] = []
        for call in calls:
            self.mend()
            results += self.execute([call], entry, name)[0]
        return results

    def time_executor(self, group: int) -> list[float]:
        """CPU and wall seconds to execute all ground truths `group` times, each rollout in
        instances of its own, one call of the executor for each turn that has calls."""

        def rollout(entry_id: str, entry: dict[str, Any]) -> None:
            for calls in self.truths[entry_id]:
                if calls:
                    self.execute(calls, entry, "timed")

        return self._time(rollout, group)

    def time_checker(self, group: int) -> list[float]:
        """CPU and wall seconds to check all ground truths `group` times, as if a policy had written
        them, one step a turn."""
        turns = {entry_id: [[calls] for calls in truth] for entry_id, truth in self.truths.items()}

        def rollout(entry_id: str, entry: dict[str, Any]) -> None:
            self.checker.multi_turn_checker(
                turns[entry_id], self.truths[entry_id], entry, "", "timed"
            )

        return self._time(rollout, group)

    def _time(self, rollout: Callable[[str, dict[str, Any]], None], group: int) -> list[float]:
        """Clearing away the instances that a rollout leaves behind costs it nothing."""
        cpu = wall = 0.0
        for entry_id, entry in self.entries.items():
            for _ in range(group):
                start = _clock()
                rollout(entry_id, entry)
                end = _clock()
                cpu = cpu + end[0] - start[0]
                wall = wall + end[1] - start[1]
                self.forget()
        self.mend()
        return [cpu, wall]


def digest(texts: Sequence[str]) -> str:
    return hashlib.blake2b(
        "\x1e".join(map(_ordered, texts)).encode(errors="surrogatepass"), digest_size=12
    ).hexdigest()


_CLASSES = re.compile(r"(Invalid travel class\. Must be one of )\{[^}]*\}")
_FIELDS = re.compile(r'^(\{"error": "Invalid fields for update: )(.*)("\})$', re.DOTALL)


def _ordered(text: str) -> str:
    """Two error texts print a set, in the order of the process's hash seed; here in one order."""
    text = _CLASSES.sub(r"\1{'business', 'economy', 'first'}", text)
    return _FIELDS.sub(
        lambda found: found[1] + ", ".join(sorted(found[2].split(", "))) + found[3], text
    )


def _clock() -> tuple[float, float]:
    return time.process_time(), time.perf_counter()


_oracle: Oracle | None = None


def answer(request: dict[str, Any]) -> Any:
    """Requests: {"do": "judge", "rollouts": [[id, turns], …], "isolated": bool, "texts": bool},
    {"do": "errors", "rollouts": [[id, turns], …]}, {"do": "executor" | "checker", "group": int},
    {"do": "check", "rollouts": [[entry, ground truth, turns], …]}; all with "wheel", whose hash the
    parent has checked."""
    global _oracle
    if _oracle is None:
        _oracle = Oracle(request["wheel"])
    if request["do"] == "judge":
        return [
            _oracle.judge(
                entry_id, turns, request.get("isolated", False), request.get("texts", False)
            )
            for entry_id, turns in request["rollouts"]
        ]
    if request["do"] == "errors":
        return [_oracle.errors(entry_id, turns) for entry_id, turns in request["rollouts"]]
    if request["do"] == "check":
        return [_oracle.check(entry, truth, turns) for entry, truth, turns in request["rollouts"]]
    time_it = _oracle.time_executor if request["do"] == "executor" else _oracle.time_checker
    return time_it(request["group"])
