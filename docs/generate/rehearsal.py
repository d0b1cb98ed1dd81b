"""Every question that a seed would bring, without a model, for the pages in docs/prompts/.

The author goes through its stages over the seed, and each question is kept as it would be sent; a
stand-in answers it (rods.daemon.stand_ins.model), again and again until a draft gets through all
stages. Its judge finds fault with every sample, and what is asked after a failure (patch, refine)
is asked once too.
"""

import random
from collections.abc import Awaitable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from rods.analysis.profile import profile
from rods.composing.records import ComposeError, Draft
from rods.config import Config, Endpoint, Roles
from rods.daemon.authors.base import Assignment, T, V, in_thread
from rods.daemon.authors.llm import LLMAuthor
from rods.daemon.authors.llm.asking import Asker
from rods.daemon.authors.llm.judging import CRITERIA
from rods.daemon.candidates import plain, with_blanks
from rods.daemon.pipeline import PLAIN
from rods.daemon.stand_ins import NAME
from rods.daemon.stand_ins.model import StandIn, roles
from rods.daemon.stand_ins.roles import Answer, Asked, Role
from rods.environments.base import Environment
from rods.family.feedback.correcting import judge, propose
from rods.family.feedback.failures import MinedFailure, shape
from rods.family.feedback.gates import Remedy
from rods.family.feedback.settings import by_agents
from rods.gates.records import Defect
from rods.llm import Client, Completion, Request
from rods.llm.wire import CHARACTERS_A_TOKEN
from rods.tasks import Task

ATTEMPTS = 12  # drafts that are tried until one gets through all stages
TRIES = 20  # answers to one question
REFUSAL = "(the words in which the tool refuses)"
ANSWER = "(what the tool should answer)"
DETAIL = "(what the world says of the call)"
ISSUE = "(what the judge holds against the sample)"


class StandInClient(Client):
    """Asks `model` what would be sent to `endpoint`, and keeps each question, once, in
    `questions`."""

    def __init__(self, model: StandIn, endpoint: Endpoint) -> None:
        super().__init__([endpoint])
        self.model = model
        self.questions = list[Request]()

    def draw(self, chance: random.Random) -> str:
        return ""

    def constrains(self, backbone: str) -> bool:
        return self.settings[0].structured

    def thinking_tokens(self, backbone: str) -> int:
        return self.settings[0].thinking_tokens

    async def complete(self, request: Request) -> Completion:
        if all(request.messages != known.messages for known in self.questions):
            self.questions.append(request)
        body: dict[str, Any] = {"messages": list(request.messages), "seed": request.random_seed}
        if request.schema is not None:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"schema": request.schema},
            }
        return Completion(
            self.model.answer(body), "stop", NAME, "", constrained=request.schema is not None
        )


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The questions about one seed in the order of the roles. `missing` says what could not be
    asked, and why."""

    questions: Sequence[Request]
    missing: tuple[str, ...] = ()


async def rehearse(
    config: Config, environment: Environment, seed: Task, root: Task, *, structured: bool = True
) -> Rehearsal:
    """All questions of one variant of `seed` under this configuration. `structured`: as an endpoint
    is asked that holds answers to schemas."""
    # what fails here is told to nobody
    settings = config.pipeline.model_copy(update={"feedback": False})
    order = list(Roles.model_fields)
    best = Rehearsal(())
    furthest = (-1, 0)
    with ThreadPoolExecutor(1) as threads:
        shape = await in_thread(threads, profile, environment, root)
        for attempt in range(1, ATTEMPTS + 1):
            asker, client = _asker(config, environment, structured=structured)
            author = LLMAuthor(environment, asker, settings, threads)
            given = _assignment(config, seed, root, attempt)
            given = replace(given, profile=shape, narrative=settings.narrative)
            missing = list[str]()
            try:
                plan = await author.plan(given)
                draft = await author.execute(given, plan, await author.initial_state(given, plan))
                missing += await _later(author, given, draft, feedback=config.pipeline.feedback)
            except ComposeError as error:
                missing += [f"no draft was found that runs ({error})"]
            if by_agents(config):
                await _failure(asker, environment, given)
            questions = sorted(client.questions, key=lambda question: order.index(question.stage))
            reach = len({question.stage for question in questions}), -len(missing)
            if reach > furthest:
                best = Rehearsal(questions, tuple(missing))
                furthest = reach
            if best.questions and not best.missing:
                break
    return best


async def _failure(asker: Asker, environment: Environment, given: Assignment[Task]) -> None:
    """Asks about a failure that repeats (000): here of the first tool that the seed's ground truth
    calls."""
    call = next(call for turn in given.seed.calls for call in turn)
    tool = environment.tools()[call.name]
    shapes = [{name: shape(value) for name, value in call.arguments.items()}]
    mined = MinedFailure(call.name, REFUSAL, 8, 8, tasks=[given.seed.id], shapes=shapes)
    with suppress(ComposeError):  # a rule reads no sense in these words
        await propose(asker, given, environment, tool, mined, "")
    other = next(name for name in environment.tools() if name != tool.name)
    await judge(asker, given, environment, tool, REFUSAL, ANSWER, Remedy("first", other))


def when(question: Request) -> str:
    """The occasion that brings a question, in words; empty for one on every seed's way."""
    role = roles().get(question.template.partition("@")[0])
    return "" if role is None else role.when


def _assignment(config: Config, seed: V, root: V, attempt: int) -> Assignment[V]:
    return Assignment(
        "rehearsal",
        0,
        seed,
        root,
        1,
        attempt,
        random_seed=config.random_seeds.daemon,
        limits=config.gates,
        same=config.pipeline.functions == "same",
    )


def _asker(
    config: Config, environment: Environment, *, structured: bool
) -> tuple[Asker, StandInClient]:
    endpoint = next(
        iter(config.operation.endpoints), Endpoint(model="none", urls=("http://localhost",))
    )
    model = StandIn([environment], {"judge_quality": Role(_object)})
    client = StandInClient(model, endpoint.model_copy(update={"structured": structured}))
    return Asker(
        client, "", client.account("rehearsal"), TRIES, feedback=False, roles=config.roles
    ), client


def _object(asked: Asked) -> Answer:
    """What a judge says who finds fault with everything."""
    fault = {"fault": "query_fixable", "turn": 1} if asked.fields["diagnosis"] else {}
    return {**dict.fromkeys(CRITERIA, "fail"), "issue": ISSUE, **fault}


async def _later(
    author: LLMAuthor, given: Assignment[Task], draft: Draft, *, feedback: bool
) -> list[str]:
    """Stages III to V, and what is asked after failures. No gate is asked. Returns what could not
    be answered."""
    settings = author.settings
    type = given.seed.type
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


def tokens(asked: Request) -> int:
    """About how many tokens the messages are: four characters each."""
    return sum(len(message["content"]) for message in asked.messages) // CHARACTERS_A_TOKEN


def title(asked: Request) -> str:
    """Role, template and settings in a line."""
    thinking = {None: "as the server has it", True: "on", False: "off"}[asked.thinking]
    occasion = f", {when(asked)}" if when(asked) else ""
    return (
        f"{asked.stage} ({asked.template}){occasion}: about {tokens(asked)} tokens in, at most "
        f"{asked.max_tokens} out; "
        f"temperature {asked.temperature:g}, top-p {asked.top_p:g}, thinking {thinking}"
    )
