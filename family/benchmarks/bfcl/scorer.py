"""BFCL's own scorer in a process of its own: `rods-eval check` compares our verdicts with its.

It runs in a `Worker`, because its executor evaluates what policies wrote. Result files, decoding,
execution and checking are the wheel's own code, unpacked into a temporary folder. The scorer
imports the handlers of every model that BFCL knows, and with them dozens of packages that only call
models: a stand-in is imported in their place. The official classes
share some objects between all instances (the default lists of `post_tweet`, the cards and bookings
that pad long contexts): `mend` restores them before each entry."""

import ast
import contextlib
import copy
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import tempfile
import types
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rods.canonical import JsonObject
from rods.environments.workers.worker import Worker, WorkerSpec
from rods.family.benchmarks.contract import Scores
from rods.family.benchmarks.folder import Form
from rods.family.benchmarks.stand_ins import StandIn
from rods.worlds.bfcl import wheel

SCORER = "rods.family.benchmarks.bfcl.scorer:answer"
_PACKAGE = "bfcl_eval.eval_checker.multi_turn_eval"
# without all of these none reads Java
_PARSERS = ("tree_sitter", "tree_sitter_java", "tree_sitter_javascript")
_PARSED = all(importlib.util.find_spec(name) for name in _PARSERS)
_REAL = frozenset({"bfcl_eval", "mpmath", "filelock", "rods", *(_PARSERS if _PARSED else ())})
_HOUR = 3_600.0


def verdicts(samples: Sequence[tuple[int, Sequence[Path]]], form: Form) -> Scores:
    """The verdicts of the wheel's scorer on result files, each of a sample, by id and sample."""
    file = wheel.path()
    valid: Scores = {}
    with contextlib.closing(start(SCORER)) as scorer:
        for sample, path in ((sample, path) for sample, files in samples for path in files):
            if path.name.endswith("_prereq_result.json"):
                continue  # conversations before questions are not scored
            category = path.name.removeprefix("BFCL_v4_").removesuffix("_result.json")
            answer = scorer.call(
                {"wheel": str(file), "form": form, "category": category, "file": str(path)}
            )
            valid |= {(name, sample): verdict for name, verdict in answer.items()}
    return valid


def start(target: str) -> Worker:
    """A process that answers the requests of `target`, with an hour for each."""
    return Worker(WorkerSpec(target, seconds=_HOUR, memory=1 << 33, reply_bytes=1 << 28))


class Official:
    """The modules of the wheel."""

    def __init__(self, wheel: str) -> None:
        sys.path.insert(0, wheel)
        self.utils: Any = importlib.import_module(f"{_PACKAGE}.multi_turn_utils")
        sources = f"{_PACKAGE}.func_source_code"
        self.posting: Any = importlib.import_module(f"{sources}.posting_api").TwitterAPI
        self.travel: Any = importlib.import_module(f"{sources}.travel_booking")
        self.padding = copy.deepcopy(
            (self.travel.CREDIT_CARD_EXTENSION, self.travel.BOOKING_RECORD_EXTENSION)
        )

    def mend(self) -> None:
        """Gives the classes their shared objects back as they were at first."""
        self.posting.post_tweet.__defaults__ = ([], [])
        self.travel.CREDIT_CARD_EXTENSION, self.travel.BOOKING_RECORD_EXTENSION = copy.deepcopy(
            self.padding
        )

    def forget(self) -> None:
        """Removes the instances that the executor keeps in its module."""
        names = vars(self.utils)
        for name in [name for name in names if name.endswith("_instance")]:
            del names[name]


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds, before all other finders, a stand-in for whatever scoring does not need, installed or
    not."""

    def find_spec(
        self, name: str, path: Any, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        top = name.split(".")[0]
        here = top in sys.modules and not isinstance(sys.modules[top], StandIn)
        if here or top in sys.stdlib_module_names or top in _REAL:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


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
        # the decoder asks for them; Python 3.14 no longer has them
        for name in ("NameConstant", "Ellipsis"):
            if not hasattr(ast, name):
                setattr(ast, name, type(name, (ast.expr,), {}))
        with contextlib.redirect_stdout(sys.stderr):
            self.runner: Any = importlib.import_module("bfcl_eval.eval_checker.eval_runner")
            handlers = importlib.import_module(
                "bfcl_eval.model_handler.api_inference.openai_completion"
            )
        self.utils: Any = importlib.import_module("bfcl_eval.utils")
        models = importlib.import_module("bfcl_eval.constants.model_config")
        self.models: JsonObject = models.MODEL_CONFIG_MAPPING
        self.handlers = {
            form: handlers.OpenAICompletionsHandler(
                "rods", 0.0, "rods", is_fc_model=form == "native"
            )
            for form in ("prompt", "native")
        }
        # the same modules: it knows how to forget and mend what they share
        self.official = Official(wheel)

    @cache  # noqa: B019 it lives as long as the process
    def tasks(self, category: str) -> tuple[list[JsonObject], list[JsonObject]]:
        """The scorer's prompts and answers of a category."""
        prompts = self.utils.load_dataset_entry(
            category, include_prereq=False, include_language_specific_hint=False
        )
        if category.startswith("multi_turn"):
            for prompt in prompts:
                del prompt["function"]  # as the scorer does
        if "relevance" in category:
            return prompts, [{"ground_truth": None} for _ in prompts]
        return prompts, self.utils.load_ground_truth_entry(category)

    def verdicts(self, form: str, category: str, file: Path) -> dict[str, bool | None]:
        """The scorer's verdict on each entry of a result file, by id; None where it lacks a
        parser."""
        results = self.utils.load_file(file, sort_by_id=True)
        prompts, answers = self.runner._subset_entries_by_model_ids(
            results, *self.tasks(category), allow_missing=True
        )
        judge = None  # of several turns
        if category.startswith("multi_turn"):
            judge = self.runner._evaluate_single_multi_turn_entry
        elif category.startswith(("memory", "web_search")):
            judge = self.runner._evaluate_single_agentic_entry
        valid: dict[str, bool | None] = {}
        for result, prompt, answer in zip(results, prompts, answers, strict=True):
            about = self.handlers[form], result["id"], result["result"]
            right = answer["ground_truth"]
            if judge is None:
                valid[result["id"]] = self._single_turn(form, category, about, prompt, right)
                continue
            self.official.mend()
            verdict = judge(*about, right, prompt, "rods", category)
            self.official.forget()
            valid[result["id"]] = bool(verdict["valid"])
        self.official.mend()
        return valid

    def _single_turn(
        self, form: str, category: str, about: tuple[Any, ...], prompt: Any, right: Any
    ) -> bool | None:
        if "relevance" in category:
            judge = self.runner._evaluate_single_relevance_entry
            return bool(judge(*about, prompt, "rods", category)["valid"])
        language = next((one for one in ("javascript", "java") if category.endswith(one)), "python")
        if language != "python" and form == "prompt" and not _PARSED:
            return None
        # as of all of OpenAI's
        self.models["rods"] = types.SimpleNamespace(underscore_to_dot=form == "native")
        try:
            verdict = self.runner._evaluate_single_ast_entry(
                *about,
                right,
                prompt,
                "rods",
                category,
                self.runner.Language(language),
                self.runner.ReturnFormat(language),
            )
            return bool(verdict["valid"])
        except Exception:  # noqa: BLE001
            # its comparison has raised, and the entry is not among the valid ones
            return False


_scorer = cache(Scorer)


def answer(request: JsonObject) -> dict[str, bool | None]:
    """{"wheel", "form", "category", "file"} → verdicts by id."""
    scorer = _scorer(request["wheel"])
    with contextlib.redirect_stdout(sys.stderr):
        return scorer.verdicts(request["form"], request["category"], Path(request["file"]))
