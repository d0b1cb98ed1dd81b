"""What BFCL V4's questions with an answer in words have in common: the verdict, by the last output
that is no call; and how their tools answer. It is right if it has one of the allowed answers in it,
without case and some punctuation, as words of their own."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rods.calls import Call
from rods.canonical import Json, JsonMapping, content_id
from rods.environments.base import Features, Instance, Result, Tool, Tools
from rods.episode.drivers import Job
from rods.episode.engine import Trace
from rods.errors import InfrastructureError
from rods.family.benchmarks.bfcl import results
from rods.family.benchmarks.bfcl.benchmark import ResultFiles
from rods.family.benchmarks.bfcl.decoding import decode
from rods.family.benchmarks.bfcl.dialects import FORMS
from rods.family.benchmarks.bfcl.harness import harness
from rods.family.benchmarks.episodes import ItemJob, Items, Maker, Unjudged
from rods.family.benchmarks.folder import Episode, Form, Score, Settings
from rods.tasks import AnyTask
from rods.worlds.bfcl import wheel
from rods.worlds.bfcl.execution import PREFIX

_IGNORED = re.compile(r"[,./\-_*^()]")


class Questions(ResultFiles):
    """A benchmark of such questions. The provenance of a task has its `kind`, and its `answers`;
    without any it has no score."""

    def score(self, episode: Episode) -> Score:
        task = self.by_id[episode.task]
        if not (answers := task.provenance["answers"]):
            return Score(self.kind(task), {})
        right = answered(answers, self.written(episode), episode.form)
        return Score(self.kind(task), {"official": float(right)})


class WheelTools(ABC):
    """The tools of one of the wheel's classes, the `owner`, as an environment: as the file `name`
    documents them; `about` is what else their behaviour depends on."""

    name: str
    features: Features

    def __init__(self, name: str, owner: str, **about: Json) -> None:
        self.owner = owner
        self.documents = wheel.read_json_lines(
            wheel.path(), f"data/multi_turn_func_doc/{name}.json"
        )
        self._tools = {
            one["name"]: Tool(one["name"], owner, one["description"]) for one in self.documents
        }
        self.hash = content_id({"wheel": wheel.SHA256, **about})

    def tools(self) -> Tools:
        return self._tools

    @abstractmethod
    def reset(self, state: JsonMapping | None) -> Instance: ...


class QuestionMaker(Maker):
    """Makes jobs of questions, with tools that are made for each."""

    def __init__(self, benchmark: Items, settings: Settings) -> None:
        super().__init__(benchmark, settings)
        self.words = harness(wheel.path())
        self.answer_form = self.words.texts["ADDITIONAL_SYSTEM_PROMPT_FOR_AGENTIC_RESPONSE_FORMAT"]

    def question(
        self, task: AnyTask, system: str, tools: WheelTools, own: Any, waits: bool
    ) -> ItemJob:
        """The job of a task whose tools are those of the instance `own`."""
        owners = dict.fromkeys(tools.tools(), tools.owner)
        dialect = FORMS[self.settings.form](self.words.of(tools.documents), owners)
        return ItemJob(
            replace(task, system=system, id=""),
            tools,
            dialect,
            Unjudged(),
            max_steps=self.words.steps,
            visible_only=False,
            world=lambda: own,
            waits=waits,
            own=own,
        )

    def result(self, job: Job, trace: Trace) -> Any:
        return results.outputs(trace, job.dialect)


def answered(answers: Sequence[str], outputs: Any, form: Form) -> bool:
    """BFCL's verdict on the outputs of a question, one turn."""
    if not isinstance(outputs, list) or len(outputs) != 1:
        return False
    words = [step for step in outputs[0] if not decode(step, form)]
    if not words or not words[-1]:
        return False
    text = _plain(str(words[-1][0] if isinstance(words[-1], list) else words[-1]))
    return any(re.search(rf"\b{re.escape(_plain(answer))}\b", text) for answer in answers)


def _plain(text: str) -> str:
    return _IGNORED.sub("", text).lower().replace("'", '"')


def executed(tools: Any, documented: JsonMapping, call: Call) -> Result:
    """The result of a call of a method of `tools` that is one of the `documented`, in the words of
    BFCL's executor. Raises InfrastructureError where the method does."""
    if call.name not in documented:
        return Result(f"{PREFIX}name '{call.name}' is not defined", None, "unknown_tool")
    try:
        value = getattr(tools, call.name)(**call.arguments)
        text = json.dumps(value) if isinstance(value, dict) else str(value)
    except InfrastructureError:
        raise
    except Exception as error:  # noqa: BLE001 it is the tool's answer
        return Result(f"{PREFIX}{error}", None, "tool")
    return Result(text, None, "tool" if isinstance(value, dict) and "error" in value else None)
