"""`rods prompts`: every question that a seed would bring, without a model, so that prompts can be judged before
they are paid for.

The author goes through its stages over the seed, and each question is kept as it would be sent; a stand-in answers it
(rods.family.trials.stand_in_model), again and again until a draft gets through all stages. Its judge finds fault with
every sample, and what is asked after a failure (patch, refine) is asked once too.
"""

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated

import orjson
from cyclopts import Parameter

from rods.analysis.profile import profile
from rods.buffers.run.run import Run
from rods.commands import Json
from rods.composing.records import ComposeError, Draft
from rods.config import Config, Endpoint, Roles
from rods.console.follower import Follower
from rods.console.output import RunFolder, print_result
from rods.console.task_history import task_history
from rods.console.verbs.inspect import TaskId
from rods.daemon.authors.base import Asking, Assignment, Defect, T, V, WholeAuthor, in_thread
from rods.daemon.authors.llm import LLMAuthor
from rods.daemon.authors.llm.asking import Asker
from rods.daemon.authors.llm.judging import CRITERIA
from rods.daemon.candidates import plain, with_blanks
from rods.daemon.pipeline import PLAIN, kinds_of
from rods.daemon.stand_ins import Answer, Asked, Role
from rods.environments.base import Environment
from rods.errors import UserError
from rods.family.trials.stand_in_model import StandIn, StandInClient, parts, roles
from rods.llm import Request
from rods.llm.wire import CHARACTERS_A_TOKEN
from rods.tasks import OpenTask, Task

ATTEMPTS = 12  # drafts that are tried until one gets through all stages
TRIES = 20  # answers to one question
DETAIL = "(what the world says of the call)"
ISSUE = "(what the judge holds against the sample)"
Tagged = Annotated[bool, Parameter(negative="", help="As an endpoint is asked that holds answers to no schema.")]


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The questions about one seed in the order of the roles. `missing` says what could not be asked, and why."""

    questions: Sequence[Request]
    missing: tuple[str, ...] = ()


async def rehearse(
    config: Config, environment: Environment, seed: Task, root: Task, *, structured: bool = True
) -> Rehearsal:
    """All questions of one variant of `seed` under this configuration. `structured`: as an endpoint is asked that
    holds answers to schemas."""
    settings = config.pipeline.model_copy(update={"feedback": False})  # what fails here is told to nobody
    order = list(Roles.model_fields)
    best, furthest = Rehearsal(()), (-1, 0)
    with ThreadPoolExecutor(1) as threads:
        shape = await in_thread(threads, profile, environment, root)
        for attempt in range(1, ATTEMPTS + 1):
            asker, client = _asker(config, environment, structured=structured)
            author = LLMAuthor(environment, asker, settings, threads)
            given = _given(config, environment, seed, root, attempt)
            given = replace(given, profile=shape, narrative=settings.narrative)
            missing = list[str]()
            try:
                plan = await author.plan(given)
                draft = await author.execute(given, plan, await author.initial_state(given, plan))
                missing += await _later(author, given, draft, feedback=config.pipeline.feedback)
            except ComposeError as error:
                missing += [f"no draft was found that runs ({error})"]
            for part in parts():
                if (beside := getattr(part, "rehearse", None)) is not None:
                    await beside(config, asker, given)
            questions = sorted(client.questions, key=lambda question: order.index(question.stage))
            reach = len({question.stage for question in questions}), -len(missing)
            if reach > furthest:
                best, furthest = Rehearsal(questions, tuple(missing)), reach
            if best.questions and not best.missing:
                break
    return best


async def rehearse_whole(run: Run, environment: Environment, seed: OpenTask, *, structured: bool = True) -> Rehearsal:
    """What a model is asked that writes variants of `seed` whole."""
    config = run.config
    kind = next((kind for kind in kinds_of(run) if kind.matches(seed)), None)
    if kind is None or not kind.rehearsed:
        what = "no model is asked to vary it: it has no ground-truth calls, and is of no kind that is asked for whole"
        raise UserError(what, where=f"task {seed.id}", remedy="name another seed")
    asker, client = _asker(config, environment, structured=structured)
    with ThreadPoolExecutor(1) as threads, suppress(ComposeError):
        asking = Asking(config, threads, by_model=True, writing=lambda pick, index: asker)
        author = kind.author(asking, environment, seed, "rehearsal", 0)
        assert isinstance(author, WholeAuthor)
        await author.write(_given(config, environment, seed, seed, 1))
    return Rehearsal(client.questions[:1])


def when(question: Request) -> str:
    """The occasion that brings a question, in words; empty for one on every seed's way."""
    role = roles().get(question.template.partition("@")[0])
    return "" if role is None else role.when


def _given(config: Config, environment: Environment, seed: V, root: V, attempt: int) -> Assignment[V]:
    key = (config.random_seeds.daemon, "rehearsal", 0, attempt)
    return Assignment(environment, seed, root, key, config.gates, config.pipeline.functions == "same")


def _asker(config: Config, environment: Environment, *, structured: bool) -> tuple[Asker, StandInClient]:
    endpoint = next(iter(config.operation.endpoints), Endpoint(model="none", urls=("http://localhost",)))
    model = StandIn([environment], {"judge_quality": Role(_object)})
    client = StandInClient(model, endpoint.model_copy(update={"structured": structured}))
    return Asker(client, "", client.account("rehearsal"), TRIES, feedback=False, roles=config.roles), client


def _object(asked: Asked) -> Answer:
    """What a judge says who finds fault with everything."""
    fault = {"fault": "query_fixable", "turn": 1} if asked.fields["diagnosis"] else {}
    return {**dict.fromkeys(CRITERIA, "fail"), "issue": ISSUE, **fault}


async def _later(author: LLMAuthor, given: Assignment[Task], draft: Draft, *, feedback: bool) -> list[str]:
    """Stages III to V, and what is asked after failures. No gate is asked. Returns what could not be answered."""
    settings, type = author.settings, given.seed.type
    simple = draft if type in PLAIN else plain(draft)
    missing = []

    async def tried(work: Awaitable[T]) -> T | None:
        try:
            return await work
        except ComposeError as error:
            missing.append(str(error))
            return None

    texts = await tried((author.rewrite if settings.rewrite else author.queries)(given, simple))
    if texts is not None:
        forms = [(simple, texts, type if type in PLAIN else "base")]
        if type not in PLAIN and settings.adversarial:
            forms.append((draft, with_blanks(draft, texts), type))
        for made, said, form in forms:
            task = await tried(author.form(given, made, said, form))
            if task is not None and settings.judge:
                await tried(author.judge(given, made, task))
        if settings.refine_cycles:
            await tried(author.reword(given, simple, texts, Defect("query_fixable", ISSUE, 0)))
    if feedback:
        first = simple.turns[0][0].call
        failure = ComposeError("vm_exec_failed", DETAIL, function=first.name, turn=0, call=first)
        await author.patch(given, draft.plan, draft.state, failure)
    return missing


def prompts(run: RunFolder, seed: TaskId, /, *, tagged: Tagged = False, as_json: Json = False) -> None:
    """Print every prompt of a seed as it would be sent, with its role's settings and token counts. No endpoint is
    asked: what a prompt builds on is filled in by chance and by rule."""
    opened, history = Run.open(run), task_history(Follower(run), seed)
    environment = opened.environments.load(history.task.environment.name)
    endpoints = opened.config.operation.endpoints
    structured = not tagged and all(endpoint.structured for endpoint in endpoints)
    task, root = history.task, history.lineage[0]
    if isinstance(task, OpenTask):
        asking = rehearse_whole(opened, environment, task, structured=structured)
    else:
        assert isinstance(task, Task) and isinstance(root, Task)
        asking = rehearse(opened.config, environment, task, root, structured=structured)
    rehearsal = asyncio.run(asking)
    procedural = opened.config.pipeline.author == "procedural"
    settings = ("max_tokens", "temperature", "top_p", "thinking", "messages", "schema")
    records = [
        {"role": asked.stage, "template": asked.template, "when": when(asked), "tokens_in": tokens(asked)}
        | {name: getattr(asked, name) for name in settings}
        for asked in rehearsal.questions
    ]
    print_result(as_json, {"missing": rehearsal.missing, "prompts": records}, _lines(rehearsal, procedural))


def tokens(asked: Request) -> int:
    """About how many tokens the messages are: four characters each."""
    return sum(len(message["content"]) for message in asked.messages) // CHARACTERS_A_TOKEN


def title(asked: Request) -> str:
    """Role, template and settings in a line."""
    thinking = {None: "as the server has it", True: "on", False: "off"}[asked.thinking]
    occasion = f", {when(asked)}" if when(asked) else ""
    return (
        f"{asked.stage} ({asked.template}){occasion}: about {tokens(asked)} tokens in, at most {asked.max_tokens} out; "
        f"temperature {asked.temperature:g}, top-p {asked.top_p:g}, thinking {thinking}"
    )


def _lines(rehearsal: Rehearsal, procedural: bool) -> Iterator[str]:
    """Every prompt; what the seed's own way comes to, and what could not be asked."""
    if procedural:
        yield from ('pipeline.author is "procedural": this run asks no model; with "llm" it would ask', "")
    for number, asked in enumerate(rehearsal.questions, start=1):
        yield f"===== {number}. {title(asked)}"
        for message in asked.messages:
            yield f"--- {message['role']}"
            yield from message["content"].splitlines()
        if asked.schema is not None:
            yield from ("--- schema", orjson.dumps(asked.schema).decode())
        yield ""
    way = [asked for asked in rehearsal.questions if not when(asked)]
    yield (
        f"{len(way)} prompts on the way of a seed that goes well, about {sum(map(tokens, way))} tokens in and at most "
        f"{sum(asked.max_tokens for asked in way)} out (with four characters a token)"
    )
    for why in rehearsal.missing:
        yield f"what builds on this could not be filled in: {why}"
