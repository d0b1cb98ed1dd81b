"""BFCL V4's single turns as a benchmark (rods.family.benchmarks.benchmarks): a question, documents
of functions, and the calls that answer it, which are compared and never executed. In irrelevance
categories no call is right; in relevance any is."""

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import SimpleNamespace
from typing import Any, NamedTuple

import orjson

from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject
from rods.dialects import Message
from rods.environments.registry import declared
from rods.episode.drivers import Job
from rods.episode.engine import NeedText, Reply, StepTrace, Trace, TurnTrace
from rods.family.benchmarks import contract
from rods.family.benchmarks.bfcl.benchmark import ResultFiles
from rods.family.benchmarks.bfcl.dialects import FORMS, Native, Prompted
from rods.family.benchmarks.bfcl.harness import harness, right_answers, taken
from rods.family.benchmarks.bfcl_single import source_text
from rods.family.benchmarks.episodes import Maker, OwnWorlds, Unjudged
from rods.family.benchmarks.folder import Episode, Form, Score
from rods.tasks import AnyTask, Task
from rods.worlds import bfcl
from rods.worlds.bfcl import wheel

NAME = "bfcl_single"
DECLARED = declared("rods.family.benchmarks", "benchmark.toml")[NAME]
Decoded = Mapping[str, JsonMapping]  # one call: {name: {argument: value}}


class Item(NamedTuple):
    """An entry of the wheel; each of `answers` has a name, and a list of values for each argument;
    there are none for (ir)relevance."""

    category: str
    question: Sequence[Mapping[str, str]]
    documents: Sequence[Any]
    answers: Sequence[Decoded]


def right(item: Item, result: Any, form: Form) -> bool:
    """BFCL's verdict on a result: a text, or for native calls a list of {name: arguments as JSON}.
    (Ir)relevance goes by whether there are calls."""
    calls = source_text.decoded(result, form, item.category)
    if "relevance" in item.category:
        return bool(calls) != ("irrelevance" in item.category)
    return calls is not None and allowed(item, calls, form)


def allowed(item: Item, calls: Sequence[Decoded], form: Form) -> bool:
    """Whether `calls` are among those that BFCL allows in an item, by its own comparison of syntax
    trees; where that raises, no call is allowed. Native calls have underscores in the place of
    dots."""
    checker = _checker()
    language = checker["Language"](source_text.language(item.category))
    try:
        outcome = checker["ast_checker"](
            item.documents, calls, item.answers, language, item.category, form
        )
    except Exception:  # noqa: BLE001 BFCL's runner takes that for a wrong call
        return False
    return bool(outcome["valid"])


@cache
def _checker() -> JsonObject:
    """BFCL's comparison, taken by name out of the wheel, whose hash is checked. It asks by the name
    of a model whether its calls have dots: here by their form."""
    names = {
        "re": re,
        "Language": taken(wheel.path(), "constants/enums.py")["Language"],
        "MODEL_CONFIG_MAPPING": {
            "prompt": SimpleNamespace(underscore_to_dot=False),
            "native": SimpleNamespace(underscore_to_dot=True),
        },
    }
    for language in ("java", "javascript"):
        names |= source_text.reading(language)
    return taken(wheel.path(), "eval_checker/ast_eval/ast_checker.py", DECLARED["taken"], names)


def _call(item: Item, answer: Decoded) -> Call:
    """The first of the calls that an answer allows."""
    name, wanted = next(iter(answer.items()))
    document = next(one for one in item.documents if one["name"] == name)["parameters"]
    first = {
        argument: _plain(next((value for value in values if value != ""), ""))
        for argument, values in wanted.items()
        if argument in document["required"] or "" not in values
    }
    return Call(name, first)


def _plain(value: Any) -> Any:
    """An allowed value; of a dict, and of dicts in a list, the first value that each key may
    have."""
    if isinstance(value, dict):
        return {key: own[0] for key, own in value.items() if own and own[0] != ""}
    return [_plain(own) for own in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class SingleTurn(Job):
    """A job of one reply to `asked`."""

    asked: tuple[Message, ...] = ()

    def engine(self) -> Generator[Any, Any, Trace]:
        reply: Reply = yield NeedText(self.asked, 0, 0)
        messages = (*self.asked, Message("assistant", reply.text))
        end = "finished" if reply.end == "stop" else reply.end
        return Trace(self.task.id, (TurnTrace((StepTrace(reply.text),)),), end, 1, messages)


class SingleTurnMaker(Maker):
    """The `Maker` of single turns."""

    benchmark: "SingleTurns"

    def job(self, task: AnyTask, before: Episode | None = None) -> Job:
        item = self.benchmark.items[task.provenance["id"]]
        words = harness(wheel.path())
        dialect = FORMS[self.settings.form](words, {})
        documents = words.hinted(item.documents, item.category)
        messages = [(one["role"], one["content"]) for one in item.question]
        own = messages.pop(0)[1] if messages[0][0] == "system" else ""
        if self.settings.form == "native":
            tools = [orjson.dumps(tool).decode() for tool in words.native_tools(documents)]
            opening = Message("system", own, tuple(tools))
        else:
            system = words.system_prompt(documents)
            opening = Message("system", f"{system}\n\n{own}" if own else system)
        rest = [
            Message(
                role,  # type: ignore[arg-type]
                dialect.answer(text) if role == "assistant" else text,
            )
            for role, text in messages
        ]
        world = bfcl.environment()
        return SingleTurn(
            task,
            world,
            dialect,
            Unjudged(),
            world=lambda: world.reset(None),
            asked=(opening, *rest),
        )

    def result(self, job: Job, trace: Trace) -> Any:
        assert isinstance(job.dialect, (Prompted, Native))
        return job.dialect.step(trace.turns[0].steps[0].text)


class SingleTurns(ResultFiles):
    """The benchmark (rods.family.benchmarks.contract)."""

    name = NAME
    title = "BFCL single turns"
    kinds = DECLARED["categories"]
    makes = SingleTurnMaker

    @cached_property
    def items(self) -> dict[str, Item]:
        """Every entry of the wheel, by its id."""
        file = wheel.path()
        entries = dict[str, Item]()
        for category in self.kinds:
            answers = {} if "relevance" in category else right_answers(category)
            for entry in wheel.read_json_lines(file, f"data/BFCL_v4_{category}.json"):
                own = answers.get(entry["id"], ())
                entries[entry["id"]] = Item(category, entry["question"][0], entry["function"], own)
        return entries

    @cached_property
    def by_id(self) -> dict[str, Task]:
        """The items as tasks: the script is the last question alone, and `SingleTurn` asks all of
        it."""
        world = OwnWorlds("bfcl", self.environment)  # without its tools
        return {
            name: contract.item(
                world, name, [item.question[-1]["content"]], self.data, kind=item.category
            )
            for name, item in self.items.items()
        }

    def score(self, episode: Episode) -> Score:
        item = self.items[episode.task]
        verdict = float(right(item, self.written(episode), episode.form))
        return Score(item.category, {"official": verdict})

    def calls(self, task: Task) -> Sequence[Sequence[Call]]:
        item = self.items[self.identifier(task)]
        return [[_call(item, answer) for answer in item.answers]]
