"""Every question that a seed would bring, without a model: so that prompts can be judged before they are paid for.

The author goes through its stages over the seed, and each question is kept as it would be sent. What a later question
builds on is filled in by chance or by rule instead of a model: functions and values are drawn from those on offer until
a draft runs, words come from the environment's phrase book or, without one, name the values that have to be said.
Verdicts are good, save that what is asked after a failure (patch, classify, refine) is asked once too.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Awaitable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from daemon.authors.base import Assignment, Defect, T, Texts
from daemon.authors.drawn import DrawnAssignment, ModelDrawer
from daemon.authors.llm import LLMAuthor, correcting, wording
from daemon.authors.llm.asking import Asker, Context
from daemon.candidates import plain, with_blanks
from daemon.pipeline import PLAIN
from rods.analysis.failures import shape
from rods.analysis.profile import profile
from rods.analysis.sampling import Sampler
from rods.answers import AnswerForm
from rods.composing import wording as phrases
from rods.composing.records import ComposeError, Draft
from rods.config import Config, Endpoint, Roles
from rods.environments.base import Environment
from rods.errors import UserError
from rods.gates.probe import Remedy
from rods.llm import Client, Completion, Request
from rods.rules.mining import MinedFailure
from rods.simulation.generating import levels_of
from rods.tasks import OpenTask, Task

ATTEMPTS = 12  # drafts that are tried until one gets through all stages
TRIES = 20  # answers by chance to one question
STORY = "(the story, as the planner tells it)"
DETAIL = "(what the world says of the call)"
REFUSAL = "(the words in which the tool refuses)"
ANSWER = "(what the tool should answer)"
ISSUE = "(what the judge holds against the sample)"
WHEN = {  # the roles that are not asked on every seed's way
    "patch": "only after a failure that the world may be the reason of",
    "classify": "only after the judge rejected a sample",
    "refine": "only after gates or judge objected to the words of one turn",
    "feedback": "of a failure that repeats, not of a seed",
    "feedback_judge": "of a failure that repeats, not of a seed",
}


@dataclass(slots=True)
class RehearsedAsker(Asker):
    """An asker that keeps each question, once, and answers it from its form. `words`: the texts of a draft's turns;
    `rejecting`: whether the judge finds fault."""

    questions: list[Request] = field(default_factory=list)
    words: Texts = ("",)
    rejecting: bool = False

    def constrains(self) -> bool:
        return self.client.settings[0].structured

    async def complete(self, request: Request, form: AnswerForm) -> Completion:
        if all(request.messages != known.messages for known in self.questions):
            room = self.client.settings[0].thinking_tokens if request.thinking else 0
            self.questions.append(replace(request, max_tokens=request.max_tokens + room))
        rng = random.Random(request.random_seed)
        answer = {name: self._answer(request, name, schema, rng) for name, schema in form.fields.items()}
        if request.schema is not None:
            text = json.dumps(answer)
        else:
            parts = []
            for name, value in answer.items():
                several = isinstance(value, list) and "items" in form.fields[name]
                for one in value if several else [value]:
                    parts.append(f"<{name}>{one if isinstance(one, str) else json.dumps(one)}</{name}>")
            text = "\n".join(parts)
        return Completion(text, "stop", "", "", constrained=request.schema is not None)

    def _answer(self, request: Request, name: str, schema: Mapping[str, Any], rng: random.Random) -> Any:
        """One field: what lets the seed go on, else anything that the schema allows."""
        asked = str(request.messages[1]["content"])
        if schema.get("enum") == ["pass", "fail"]:
            return "fail" if self.rejecting and name == "naturalness" else "pass"
        if request.stage in ("judge", "classify"):
            bad = {"issue": ISSUE, "fault": "query_fixable", "turn": 1}
            return (bad if self.rejecting else {"issue": "", "fault": "none", "turn": 0})[name]
        if request.stage == "query":
            return [self.words[int(turn) - 1] for turn in re.findall(r"^Turn (\d+):$", asked, re.MULTILINE)]
        if name in ("request", "supply"):  # of miss_param, whose first choice is left open
            (said,) = re.findall(r"^1\. \S+ of \S+: (.*)$", asked, re.MULTILINE)
            (text,) = re.findall(r"^The request of turn \d+:\n(.*)$", asked, re.MULTILINE)
            value = re.escape(str(json.loads(said)))
            return re.sub(value, "one of them", text, flags=re.IGNORECASE) if name == "request" else f"I mean {value}."
        fixed = {
            "narrative": STORY,
            "verdict": ["aligned"] * schema.get("minItems", 0),
            "queries": list(self.words),
            "query": self.words[0],
            "problem": "",
            "choice": 1,
            "served": "no",
            "known": "no",
        }
        return fixed[name] if name in fixed else _instance(name, schema, rng)


def _instance(name: str, schema: Mapping[str, Any], rng: random.Random) -> Any:
    sampler = Sampler(rng)
    return [sampler.value(name, one) for one in schema.get("prefixItems", ())] or sampler.value(name, schema)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The questions about one seed in the order of the roles. `missing` says what could not be asked, and why."""

    questions: Sequence[Request]
    missing: tuple[str, ...] = ()


async def rehearse(
    config: Config, environment: Environment, seed: Task, root: Task, threads: Executor, *, structured: bool = True
) -> Rehearsal:
    """All questions of one variant of `seed` under this configuration. `structured`: as an endpoint is asked that
    holds answers to schemas."""
    asker = _asker(config, structured=structured)
    settings = config.pipeline.model_copy(update={"feedback": False})  # what chance does wrong is told to nobody
    author = LLMAuthor(environment, asker, settings, threads, duplicates=config.gates.duplicates)
    shape = await author.context.compute(lambda: profile(environment, root))
    best = Rehearsal(())
    order = list(Roles.model_fields)
    for attempt in range(1, ATTEMPTS + 1):
        asker.questions, missing = [], list[str]()
        key = (config.random_seeds.daemon, "rehearsal", 0, attempt)
        given = Assignment(environment, seed, root, shape, key, config.gates)
        try:
            draft = await _drafted(author, given)
            missing += await _later(author, asker, given, draft, feedback=config.pipeline.feedback)
        except ComposeError as error:
            missing += [f"chance found no draft that runs ({error})"]
        if config.by_agents:
            await _corrected(asker, given)
        asker.questions.sort(key=lambda question: order.index(question.stage))
        found = Rehearsal(asker.questions, tuple(missing))
        best = max(best, found, key=lambda one: (len({asked.stage for asked in one.questions}), -len(one.missing)))
        if best.questions and not best.missing:
            break
    return best


async def rehearse_drawn(
    config: Config, environment: Environment, seed: OpenTask, *, structured: bool = True
) -> Rehearsal:
    """The one question about a seed that was drawn."""
    asker, levels = _asker(config, structured=structured), levels_of(seed)
    if levels is None:
        what = "it has no ground-truth calls and was not drawn from tool documents, so no model is asked to vary it"
        raise UserError(what, where=f"task {seed.id}", remedy="name another seed")
    key = (config.random_seeds.daemon, "rehearsal", 0, 1)
    given = DrawnAssignment(environment, seed, levels, key, config.pipeline.functions == "same")
    with suppress(ComposeError):  # what chance answers need not make sense
        await ModelDrawer(asker).draw(given)
    return Rehearsal(asker.questions)


def _asker(config: Config, *, structured: bool) -> RehearsedAsker:
    endpoint = next(iter(config.operation.endpoints), Endpoint(model="none", urls=("http://localhost",)))
    client = Client([endpoint.model_copy(update={"structured": structured})])
    return RehearsedAsker(client, "", client.account("rehearsal"), TRIES, feedback=False, roles=config.roles)


async def _drafted(author: LLMAuthor, given: Assignment) -> Draft:
    settings = author.context.settings
    plan = await author.plan(given, narrative=settings.narrative, functions=settings.functions)
    try:
        state = await author.initial_state(given, plan)
    except ComposeError:  # chance writes no world
        state = dict(given.seed.state or {})
    return await author.execute(given, plan, state)


async def _later(
    author: LLMAuthor, asker: RehearsedAsker, given: Assignment, draft: Draft, *, feedback: bool
) -> list[str]:
    """Stages III to V, and what is asked after failures. No gate is asked, and where words do not suffice for a
    question to be answered, the next one is asked all the same. Returns what could not be answered."""
    context, settings, type = author.context, author.context.settings, given.seed.type
    simple = draft if type in PLAIN else plain(draft)
    texts = asker.words = _words(context, given, simple)
    missing = []

    async def tried(work: Awaitable[T]) -> T | None:
        try:
            return await work
        except ComposeError as error:
            missing.append(str(error))
            return None

    if settings.calls == "per_turn" or not settings.rewrite:
        await tried(author.queries(given, simple))
    if settings.rewrite:
        await tried(wording.rewrite(context, given, simple, texts if settings.calls == "per_turn" else ()))
    forms = [(simple, texts, type if type in PLAIN else "base")]
    if type not in PLAIN and settings.adversarial:
        forms.append((draft, with_blanks(draft, texts), type))
    for made, said, form in forms:
        task = await tried(author.form(given, made, said, form))
        if task is not None and settings.judge:
            for asker.rejecting in (True, False):
                await tried(author.judge(given, made, task))
    if settings.refine_cycles:
        await tried(author.reword(given, simple, texts, Defect("query_fixable", ISSUE, 0)))
    if feedback:
        first = simple.turns[0][0].call
        failure = ComposeError("vm_exec_failed", DETAIL, function=first.name, turn=0, call=first)
        await author.patch(given, draft.plan, draft.state, failure)
    return missing


async def _corrected(asker: RehearsedAsker, given: Assignment) -> None:
    """What is asked about a failure that repeats: here of the first tool that the seed's ground truth calls."""
    call = next(call for turn in given.seed.calls for call in turn)
    tool = given.environment.tools()[call.name]
    shapes = [{name: shape(value) for name, value in call.arguments.items()}]
    mined = MinedFailure(call.name, REFUSAL, 8, 8, tasks=[given.seed.id], shapes=shapes)
    with suppress(ComposeError):  # chance writes what no rule reads
        await correcting.propose(asker, given, given.environment, tool, mined, "")
    other = next(name for name in given.environment.tools() if name != tool.name)
    await correcting.judge(asker, given, given.environment, tool, REFUSAL, ANSWER, Remedy("first", other))


def _words(context: Context, given: Assignment, draft: Draft) -> Texts:
    """A text a turn: from the phrase book, with all values that have to be said."""
    tools, texts = given.environment.tools(), []
    for text, calls in zip(phrases.word(context.catalogue, draft, given.rng("words")), draft.turns, strict=True):
        unsaid = [one.slot.text for one in wording.user_values(tools, calls) if not one.said_in([text])]
        texts.append(f"{text} It is about {', '.join(map(str, unsaid))}." if unsaid else text)
    return tuple(texts)
