"""The assessment of a world by two agents (003 §3.3): a tester that sees no source chooses calls,
drawn by chance to succeed or to be refused; a checker that sees it, and the state before, says of
each whether call, result and change are right. What was wrong is told to whoever wrote the tool,
once, and those calls are played again. A world is kept from a share of right rounds on. What was
not carried out, or could not be read, is no round; one that raised is wrong.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from rods.asking import AnswerForm, Question, Unanswered, one_of, together
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, frozen, keyed_random
from rods.daemon.authors.llm.showing import compact, excerpt
from rods.environments.base import Environment, Instance
from rods.environments.workers.worker import Overrun
from rods.errors import BrokenEnvironment, InfrastructureError
from rods.family.environments.checking.scenarios import carried_out
from rods.family.environments.written.building import BuiltWorld, Dropped
from rods.family.environments.written.record import FORMS, CachedQuestioner

WANTED = (
    "one that ought to succeed",
    "one that ought to be refused, though its arguments have the right types",
)
RECENT = 8  # calls that the tester is reminded of
SHOWN_TO_WRITER = 1_500  # characters of a state
SHOWN = 6_000  # characters of a state, a result or a change


@frozen
class Round:
    """A call in the state `before` it, and what was wrong, "" where nothing was."""

    call: Call
    before: JsonObject
    wrong: str


async def assess(
    authors: CachedQuestioner, world: BuiltWorld, environment: Environment
) -> list[Round]:
    """Plays the rounds of the assessment in the states of `world`, at the same time. Raises Dropped
    where half of all rounds could not be judged; EndpointError, BudgetSpent."""
    settings = authors.settings.writing
    chains = len(world.states)
    shares = [settings.rounds // chains + (at < settings.rounds % chains) for at in range(chains)]
    played = [
        _chain(authors, world, environment, at, rounds)
        for at, rounds in enumerate(shares)
        if rounds
    ]
    judged = [verdict for chain in await together(played) for verdict in chain]
    if len(judged) < settings.rounds:
        why = f"only {len(judged)} of {settings.rounds} rounds could be judged"
        raise Dropped("world", ["unjudged"], [why])
    return judged


def problems_of(rounds: Sequence[Round]) -> dict[str, str]:
    """What was wrong, a line a round, by tool."""
    problems = dict[str, str]()
    for played in rounds:
        if played.wrong:
            state = excerpt(compact(played.before), SHOWN_TO_WRITER)
            line = f"- assessment: {played.call}: {played.wrong}\n  in the state {state}\n"
            problems[played.call.name] = problems.get(played.call.name, "") + line
    return problems


async def played_again(
    authors: CachedQuestioner, world: BuiltWorld, environment: Environment, rounds: Sequence[Round]
) -> list[Round]:
    """The rounds, those that were wrong played and judged once more in the corrected `world`; one
    that cannot be judged stays wrong. Raises EndpointError, BudgetSpent."""

    async def again(played: Round) -> Round:
        if not played.wrong:
            return played
        try:
            instance = await asyncio.to_thread(environment.reset, played.before)
            tried = await asyncio.to_thread(_tried, instance, played.call)
        except (ValueError, BrokenEnvironment):
            return played
        try:
            return await _judged(authors, world, played.call, played.before, tried, 0)
        except Unanswered:
            return played

    return await together([again(played) for played in rounds])


def hold(rounds: Sequence[Round], threshold: float) -> None:
    """Raises Dropped where the share of right rounds is under the threshold."""
    wrong = [f"{played.call}: {played.wrong}" for played in rounds if played.wrong]
    right = len(rounds) - len(wrong)
    if rounds and right / len(rounds) < threshold:
        why = f"{right} of {len(rounds)} rounds were right, {threshold:g} are wanted"
        raise Dropped("world", ["assessment"], [why, *wrong][:6])


async def _chain(
    authors: CachedQuestioner, world: BuiltWorld, environment: Environment, number: int, rounds: int
) -> list[Round]:
    """Rounds in one state, each after those before; fewer than `rounds` where as many again were
    none."""
    plan = world.program.plan
    instance = await asyncio.to_thread(environment.reset, world.states[number])
    tools = environment.tools()
    form = AnswerForm({"tool": one_of(*tools), "arguments": {"type": "object"}})
    documents = "\n".join(compact(tool.schema()) for tool in tools.values())
    recent = list[str]()
    verdicts = list[Round]()

    def read(answer: JsonMapping) -> Call:
        return Call(answer["tool"], answer["arguments"])

    for at in range(2 * rounds):
        if len(verdicts) == rounds:
            break
        rng = keyed_random(authors.random_seed, "tested call", plan.topic, number, at)
        place = 1_000 * number + at
        before = await asyncio.to_thread(instance.snapshot)
        fields = {
            "documentation": plan.documentation,
            "tools": documents,
            "state": excerpt(compact(before), SHOWN),
            "recent": "\n".join(recent[-RECENT:]) or "(none yet)",
            "wanted": rng.choice(WANTED),
        }
        try:
            call = await authors.ask(
                Question("world_tester", fields, form, read), plan.topic, place
            )
        except Unanswered:
            continue
        try:
            tried = await asyncio.to_thread(_tried, instance, call)
        except InfrastructureError:
            instance = await asyncio.to_thread(environment.reset, before)
            continue
        if tried.raised:
            instance = await asyncio.to_thread(environment.reset, before)
        else:
            recent.append(f"{compact(call.as_json())} → {excerpt(tried.result, 300)}")
        try:
            verdicts.append(await _judged(authors, world, call, before, tried, place))
        except Unanswered:
            continue
    return verdicts


async def _judged(
    authors: CachedQuestioner,
    world: BuiltWorld,
    call: Call,
    before: JsonObject,
    tried: "_Tried",
    number: int,
) -> Round:
    """What the checker says of a call. Raises Unanswered, EndpointError, BudgetSpent."""
    if tried.raised:
        return Round(call, before, tried.raised)
    program = world.program
    evidence = {
        "documentation": program.plan.documentation,
        "source": f"{program.state}\n\n{program.tools[call.name]}",
        "before": excerpt(compact(before), SHOWN),
        "call": compact(call.as_json()),
        "result": tried.result,
        "changes": excerpt("\n".join(changes(before, tried.after)), SHOWN) or "(nothing)",
    }
    asked = Question("world_checker", evidence, FORMS["world_checker"], dict, judges=True)
    opinion = await authors.ask(asked, program.plan.topic, number)
    wrong = str(opinion.get("reason", ""))[:300] or "wrong"
    return Round(call, before, "" if opinion["verdict"] == "right" else wrong)


@frozen
class _Tried:
    """What a call gave, as the checker sees it; what the world `raised`, "" where it answered; and
    the state after it."""

    result: str
    raised: str
    after: JsonObject


def _tried(instance: Instance, call: Call) -> _Tried:
    """Makes a call. Raises InfrastructureError where it was not carried out."""
    try:
        result = carried_out(instance, call)
    except InfrastructureError as error:
        if isinstance(error.__cause__, RuntimeError) and not isinstance(error.__cause__, Overrun):
            return _Tried("", f"raised {str(error.__cause__)[:300]}", {})
        raise
    shown = excerpt(f"refused: {result.text}" if result.error else result.text, SHOWN)
    return _Tried(shown, "", instance.snapshot())


def changes(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """What differs between two JSON values, a line for each place."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            inner = f"{place}.{key}" if place else str(key)
            if key not in after:
                yield f"{inner}: {compact(before[key])} is gone"
            elif key not in before:
                yield f"{inner}: {compact(after[key])} is new"
            else:
                yield from changes(before[key], after[key], inner)
    elif before != after:
        yield f"{place}: {compact(before)} → {compact(after)}"
