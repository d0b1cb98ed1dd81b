"""BFCL's own executor, checker and scorer in a process of their own: what our verdicts are compared with.

Both targets run in a `Worker`, because the executor evaluates text; the wheel's hash is checked by the parent.

ORACLE answers the replay, which sends only calls that this project wrote. The official checker stops at the first
failing turn; here its parts (`state_checker`, `response_checker`, the emptiness rule) run for every turn, and then the
whole checker as it is. The official classes share some objects between all instances: the default lists of
`post_tweet`, and the cards and bookings that pad long contexts. `mend` restores them before each rollout. Within a
rollout the policy's and the ground truth's worlds still share them; `isolated` separates the two, so that a difference
that comes from nothing else can be told from a real one.

SCORER answers `rods-eval check`, which sends what policies wrote. The wheel is unpacked into a temporary folder. The
scorer imports the handlers of every model that BFCL knows, and with them dozens of packages that only call models: a
stand-in whose attributes do nothing is imported in their place. Result files, decoding, execution and checking are the
wheel's own code.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import os
import re
import sys
import tempfile
import time
import types
import zipfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rods.environments.workers.worker import Worker
from rods.tasks import TASK_TYPES
from worlds.bfcl.tasks import records

ORACLE = "evaluation.bfcl.parity.official:answer_oracle"
SCORER = "evaluation.bfcl.parity.official:answer_scorer"
FUNCTIONS = "multi_turn_func_doc"
_PACKAGE = "bfcl_eval.eval_checker.multi_turn_eval"
_REAL = frozenset({"bfcl_eval", "mpmath", "filelock", "rods", "worlds", "evaluation"})
_HOUR = 3_600.0


def start(target: str) -> Worker:
    """A process that answers the requests of `target`, ORACLE or SCORER."""
    return Worker(target, seconds=_HOUR, memory=1 << 33, reply_bytes=1 << 28)


class Official:
    """The modules of the wheel and its 800 entries with their ground truth."""

    def __init__(self, wheel: str) -> None:
        sys.path.insert(0, wheel)
        self.utils: Any = importlib.import_module(f"{_PACKAGE}.multi_turn_utils")
        self.checker: Any = importlib.import_module(f"{_PACKAGE}.multi_turn_checker")
        sources = f"{_PACKAGE}.func_source_code"
        self.posting: Any = importlib.import_module(f"{sources}.posting_api").TwitterAPI
        self.travel: Any = importlib.import_module(f"{sources}.travel_booking")
        self.padding = copy.deepcopy((self.travel.CREDIT_CARD_EXTENSION, self.travel.BOOKING_RECORD_EXTENSION))
        self.entries: dict[str, dict[str, Any]] = {}
        self.truths: dict[str, list[list[str]]] = {}
        for category in TASK_TYPES:
            for entry, truth in zip(*records(Path(wheel), category), strict=True):
                self.entries[entry["id"]] = entry
                self.truths[entry["id"]] = truth

    def execute(self, calls: Sequence[str], entry: dict[str, Any], name: str) -> tuple[list[str], dict[str, Any]]:
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

    def mend(self) -> None:
        """Gives the classes their shared objects back as they were at first."""
        self.posting.post_tweet.__defaults__ = ([], [])
        self.travel.CREDIT_CARD_EXTENSION, self.travel.BOOKING_RECORD_EXTENSION = copy.deepcopy(self.padding)

    def forget(self) -> None:
        """Removes the instances that the executor keeps in its module."""
        names = vars(self.utils)
        for name in [name for name in names if name.endswith("_instance")]:
            del names[name]

    def judge(self, entry_id: str, turns: list[list[list[str]]], isolated: bool, texts: bool) -> dict[str, Any]:
        """The parts of the check for every turn, and the verdicts of the whole checker (isolated: of its parts)."""
        entry, truth = self.entries[entry_id], self.truths[entry_id]
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
        """The types of error that the checker and its check of turns without ground truth name; None for none."""
        entry, truth = self.entries[entry_id], self.truths[entry_id]
        self.mend()
        found = self.checker.multi_turn_checker(turns, truth, entry, "", "errors")
        self.forget()
        self.mend()
        return [found.get("error_type"), self.checker.multi_turn_irrelevance_checker(turns, truth).get("error_type")]

    def check(self, entry: dict[str, Any], truth: list[list[str]], turns: list[list[list[str]]]) -> bool:
        """The whole checker's verdict on `turns` for an entry that is not among the wheel's own. Mends nothing: what
        the classes share goes on from entry to entry, as in a run of the benchmark."""
        valid: bool = self.checker.multi_turn_checker(turns, truth, entry, "", "variant")["valid"]
        self.forget()
        return valid

    def _run(self, calls: Sequence[str], entry: dict[str, Any], name: str, isolated: bool) -> list[str]:
        if not isolated:
            return self.execute(calls, entry, name)[0]
        results: list[str] = []
        for call in calls:
            self.mend()
            results += self.execute([call], entry, name)[0]
        return results

    def time_executor(self, group: int) -> list[float]:
        """CPU and wall seconds to execute all ground truths `group` times, each rollout in instances of its own, one
        call of the executor for each turn that has calls."""

        def rollout(entry_id: str, entry: dict[str, Any]) -> None:
            for calls in self.truths[entry_id]:
                if calls:
                    self.execute(calls, entry, "timed")

        return self._time(rollout, group)

    def time_checker(self, group: int) -> list[float]:
        """CPU and wall seconds to check all ground truths `group` times, as if a policy had written them, one step a
        turn."""
        turns = {entry_id: [[calls] for calls in truth] for entry_id, truth in self.truths.items()}

        def rollout(entry_id: str, entry: dict[str, Any]) -> None:
            self.checker.multi_turn_checker(turns[entry_id], self.truths[entry_id], entry, "", "timed")

        return self._time(rollout, group)

    def _time(self, rollout: Callable[[str, dict[str, Any]], None], group: int) -> list[float]:
        """Clearing away the instances that a rollout leaves behind costs it nothing."""
        cpu = wall = 0.0
        for entry_id, entry in self.entries.items():
            for _ in range(group):
                start = _clock()
                rollout(entry_id, entry)
                end = _clock()
                cpu, wall = cpu + end[0] - start[0], wall + end[1] - start[1]
                self.forget()
        self.mend()
        return [cpu, wall]


def digest(texts: Sequence[str]) -> str:
    return hashlib.blake2b("\x1e".join(map(_ordered, texts)).encode(errors="surrogatepass"), digest_size=12).hexdigest()


_CLASSES = re.compile(r"(Invalid travel class\. Must be one of )\{[^}]*\}")
_FIELDS = re.compile(r'^(\{"error": "Invalid fields for update: )(.*)("\})$', re.DOTALL)


def _ordered(text: str) -> str:
    """Two error texts print a set, in the order of the process's hash seed; here in one order."""
    text = _CLASSES.sub(r"\1{'business', 'economy', 'first'}", text)
    return _FIELDS.sub(lambda found: found[1] + ", ".join(sorted(found[2].split(", "))) + found[3], text)


def _clock() -> tuple[float, float]:
    return time.process_time(), time.perf_counter()


_official: Official | None = None


def answer_oracle(request: dict[str, Any]) -> Any:
    """Requests: {"do": "judge", "rollouts": [[id, turns], …], "isolated": bool, "texts": bool}, {"do": "errors",
    "rollouts": [[id, turns], …]}, {"do": "executor" | "checker", "group": int}, {"do": "check", "rollouts": [[entry,
    ground truth, turns], …]}; all with "wheel", whose hash the parent has checked."""
    global _official
    if _official is None:
        _official = Official(request["wheel"])
    if request["do"] == "judge":
        return [
            _official.judge(entry_id, turns, request.get("isolated", False), request.get("texts", False))
            for entry_id, turns in request["rollouts"]
        ]
    if request["do"] == "errors":
        return [_official.errors(entry_id, turns) for entry_id, turns in request["rollouts"]]
    if request["do"] == "check":
        return [_official.check(entry, truth, turns) for entry, truth, turns in request["rollouts"]]
    time_it = _official.time_executor if request["do"] == "executor" else _official.time_checker
    return time_it(request["group"])


class _Anything(types.ModuleType):
    """A stand-in: every attribute is a class that can be called, subclassed, combined, and does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing


class _Kind(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__


class _Nothing(metaclass=_Kind):
    def __new__(cls, *given: Any, **named: Any) -> Any:
        """As a decorator it gives back what it decorates."""
        if len(given) == 1 and not named and callable(given[0]):
            return given[0]
        return super().__new__(cls)

    def __init__(self, *given: Any, **named: Any) -> None:
        pass

    def __call__(self, *given: Any, **named: Any) -> Any:
        return given[0] if given else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds, before all other finders, a stand-in for whatever scoring does not need, installed or not."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        top = name.split(".")[0]
        real = top in sys.stdlib_module_names or top in _REAL or (top in sys.modules and not _stands_in(top))
        return None if real else importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Anything(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _stands_in(name: str) -> bool:
    return isinstance(sys.modules[name], _Anything)


class Scorer:
    """The wheel's modules, ready to judge."""

    def __init__(self, wheel: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rods-bfcl-")
        root = Path(self._folder.name)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(root / "wheel")
        os.environ["BFCL_PROJECT_ROOT"] = str(root / "project")
        sys.path.insert(0, str(root / "wheel"))
        sys.meta_path.insert(0, _StandIns())
        for name in ("NameConstant", "Ellipsis"):  # the decoder asks for them; Python 3.14 no longer has them
            if not hasattr(ast, name):
                setattr(ast, name, type(name, (ast.expr,), {}))
        with contextlib.redirect_stdout(sys.stderr):
            self.runner: Any = importlib.import_module("bfcl_eval.eval_checker.eval_runner")
            handlers: Any = importlib.import_module("bfcl_eval.model_handler.api_inference.openai_completion")
        self.utils: Any = importlib.import_module("bfcl_eval.utils")
        self.handlers = {
            form: handlers.OpenAICompletionsHandler("rods", 0.0, "rods", is_fc_model=form == "native")
            for form in ("prompt", "native")
        }
        self.official = Official(wheel)  # the same modules: it knows how to forget and mend what they share

    @cache  # noqa: B019 it lives as long as the process
    def tasks(self, category: str, data: Path | None = None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The scorer's prompts and answers of a category: the wheel's, or those of an export in the folder `data`."""
        paths = {"PROMPT_PATH": "", "POSSIBLE_ANSWER_PATH": "possible_answer", "MULTI_TURN_FUNC_DOC_PATH": FUNCTIONS}
        own = {name: getattr(self.utils, name) for name in paths}
        try:
            if data is not None:
                for name, place in paths.items():
                    setattr(self.utils, name, data / place)
            prompts = self.utils.load_dataset_entry(
                category, include_prereq=False, include_language_specific_hint=False
            )
            for prompt in prompts:
                del prompt["function"]  # as the scorer does
            return prompts, self.utils.load_ground_truth_entry(category)
        finally:
            for name, path in own.items():
                setattr(self.utils, name, path)

    def verdicts(self, form: str, category: str, file: Path, data: Path | None = None) -> dict[str, bool]:
        """The scorer's verdict on each entry of a result file, by id."""
        results = self.utils.load_file(file, sort_by_id=True)
        prompts, answers = self.runner._subset_entries_by_model_ids(
            results, *self.tasks(category, data), allow_missing=True
        )
        found: dict[str, bool] = {}
        for result, prompt, answer in zip(results, prompts, answers, strict=True):
            self.official.mend()
            verdict = self.runner._evaluate_single_multi_turn_entry(
                self.handlers[form], result["id"], result["result"], answer["ground_truth"], prompt, "rods", category
            )
            self.official.forget()
            found[result["id"]] = bool(verdict["valid"])
        self.official.mend()
        return found

    def decoded(self, form: str, steps: Sequence[Any]) -> list[list[str] | None]:
        """The call strings of outputs, None where the handler's decoder raises."""
        found: list[list[str] | None] = []
        for step in steps:
            try:
                found.append(self.handlers[form].decode_execute(step, has_tool_call_tag=False))
            except Exception:  # noqa: BLE001 as the harness has it
                found.append(None)
        return found


_scorer: Scorer | None = None


def answer_scorer(request: dict[str, Any]) -> Any:
    """{"wheel", "form", "category", "file"} → verdicts by id, with {"data": folder} on exported tasks (`rods data
    export`); {"wheel", "form", "steps"} → call strings."""
    global _scorer
    if _scorer is None:
        _scorer = Scorer(request["wheel"])
    with contextlib.redirect_stdout(sys.stderr):
        if "steps" in request:
            return _scorer.decoded(request["form"], request["steps"])
        data = Path(request["data"]) if "data" in request else None
        return _scorer.verdicts(request["form"], request["category"], Path(request["file"]), data)
