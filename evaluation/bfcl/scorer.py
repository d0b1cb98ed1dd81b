"""BFCL's own scorer in a process of its own: `rods-eval check` compares our verdicts with its.

It runs in a `Worker`, because its executor evaluates what policies wrote. Result files, decoding, execution and
checking are the wheel's own code, unpacked into a temporary folder. The scorer imports the handlers of every model that
BFCL knows, and with them dozens of packages that only call models: a stand-in whose attributes do nothing is imported
in their place. The official classes share some objects between all instances (the default lists of `post_tweet`, the
cards and bookings that pad long contexts): `mend` restores them before each entry."""

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
import types
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rods.environments.workers.worker import Order, Worker
from rods.errors import UserError
from rods.evaluation.bfcl import results
from rods.evaluation.protocol import Form
from rods.files import read_regular
from rods.worlds.bfcl import wheel

SCORER = "rods.evaluation.bfcl.scorer:answer"
FUNCTIONS = "multi_turn_func_doc"
_PACKAGE = "bfcl_eval.eval_checker.multi_turn_eval"
_REAL = frozenset({"bfcl_eval", "mpmath", "filelock", "rods"})
_HOUR = 3_600.0
_VERSION = re.compile(r"^Version: (\S+)$", re.MULTILINE)


def verdicts(samples: Sequence[tuple[int, Sequence[Path]]], form: Form, file: Path) -> dict[tuple[str, int], bool]:
    """The verdicts of the scorer of the wheel `file` on result files, each of a sample, by id and sample."""
    found: dict[tuple[str, int], bool] = {}
    scorer = start(SCORER)
    try:
        for sample, files in samples:
            for path in files:
                category = path.name.removeprefix("BFCL_v4_").removesuffix("_result.json")
                asked = {"form": form, "category": category, "file": str(path)}
                answer = scorer.call({"wheel": str(file), **asked})
                found.update({(name, sample): valid for name, valid in answer.items()})
    finally:
        scorer.close()
    return found


def known_wheel(file: Path | None) -> Path:
    """The wheel to ask, by default the pinned one in the cache. Raises RefusedError for another version, UserError for
    what is no wheel of BFCL."""
    if file is None:
        return wheel.path()
    try:
        sha256 = hashlib.sha256(read_regular(file)).hexdigest()
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            version = _VERSION.search(archive.read(names[0]).decode())
    except (OSError, zipfile.BadZipFile, IndexError) as error:
        raise UserError(f"is no wheel ({error})", where=str(file), remedy=f"give one of {wheel.PACKAGE}") from error
    stated = version[1] if version else "of no known version"
    results.check_version({"package": wheel.PACKAGE, "version": stated, "sha256": sha256}, file)
    return file


def start(target: str) -> Worker:
    """A process that answers the requests of `target`, with an hour for each."""
    return Worker(Order(target, seconds=_HOUR, memory=1 << 33, reply_bytes=1 << 28))


class Official:
    """The modules of the wheel."""

    def __init__(self, wheel: str) -> None:
        sys.path.insert(0, wheel)
        self.utils: Any = importlib.import_module(f"{_PACKAGE}.multi_turn_utils")
        self.checker: Any = importlib.import_module(f"{_PACKAGE}.multi_turn_checker")
        sources = f"{_PACKAGE}.func_source_code"
        self.posting: Any = importlib.import_module(f"{sources}.posting_api").TwitterAPI
        self.travel: Any = importlib.import_module(f"{sources}.travel_booking")
        self.padding = copy.deepcopy((self.travel.CREDIT_CARD_EXTENSION, self.travel.BOOKING_RECORD_EXTENSION))

    def mend(self) -> None:
        """Gives the classes their shared objects back as they were at first."""
        self.posting.post_tweet.__defaults__ = ([], [])
        self.travel.CREDIT_CARD_EXTENSION, self.travel.BOOKING_RECORD_EXTENSION = copy.deepcopy(self.padding)

    def forget(self) -> None:
        """Removes the instances that the executor keeps in its module."""
        names = vars(self.utils)
        for name in [name for name in names if name.endswith("_instance")]:
            del names[name]


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
