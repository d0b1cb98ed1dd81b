"""BFCL's own scorer in a process of its own: what our verdicts are compared with.

Runs in a `Worker`, because it evaluates what policies wrote; `rods-eval check` is the one place that starts it. The
wheel, whose hash the parent has checked, is unpacked into a temporary folder. The scorer imports the handlers of every
model that BFCL knows, and with them dozens of packages that only ask models: in their place a stand-in is imported
whose attributes do nothing. Result files, decoding, execution and checking are the wheel's own code.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import tempfile
import types
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

TARGET = "evaluation.bfcl.official_scorer:answer"
FUNCTIONS = "multi_turn_func_doc"
_REAL = frozenset({"bfcl_eval", "mpmath", "filelock", "rods", "worlds", "evaluation"})


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
        from evaluation.bfcl.parity.oracle import Official

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


def answer(request: dict[str, Any]) -> Any:
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
