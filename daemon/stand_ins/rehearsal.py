"""Every question that a seed would bring, without a model: so that prompts can be judged before they are paid for.

The author goes through its stages over the seed, and each question is kept as it would be sent; a stand-in answers it
(rods.daemon.stand_ins.model), again and again until a draft gets through all stages. Its judge finds fault with every
sample, and what is asked after a failure (patch, refine) is asked once too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

from rods.analysis.profile import profile
from rods.buffers.run.run import Run
from rods.composing.records import ComposeError, Draft
from rods.config import Config, Endpoint, Roles
from rods.daemon.authors.base import Asking, Assignment, Defect, T, V, WholeAuthor, in_thread
from rods.daemon.authors.llm import LLMAuthor
from rods.daemon.authors.llm.asking import Asker
from rods.daemon.authors.llm.judging import CRITERIA
from rods.daemon.candidates import plain, with_blanks
from rods.daemon.pipeline import PLAIN, kinds_of
from rods.daemon.stand_ins.model import Answer, Asked, Role, StandIn, StandInClient, parts, roles
from rods.environments.base import Environment
from rods.errors import UserError
from rods.llm import Request
from rods.tasks import OpenTask, Task

ATTEMPTS = 12  # drafts that are tried until one gets through all stages
TRIES = 20  # answers to one question
DETAIL = "(what the world says of the call)"
ISSUE = "(what the judge holds against the sample)"


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
    settings = config.pipeline.model_copy(update={"feedback": False})  # what fails here is told to nobody
    order = list(Roles.model_fields)
    shape = await in_thread(threads, profile, environment, root)
    best, furthest = Rehearsal(()), (-1, 0)
    for attempt in range(1, ATTEMPTS + 1):
        asker, client = _asker(config, environment, structured=structured)
        author = LLMAuthor(environment, asker, settings, threads, duplicates=config.gates.duplicates)
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
