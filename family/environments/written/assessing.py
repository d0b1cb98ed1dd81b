"""The assessment of a world by two agents (003 §3.3): a tester that sees no source chooses calls,
drawn by chance to succeed or to be refused; a checker that sees it, and the state before, says of
each whether call, result and change are right. `rounds_at_once` calls are asked for, and judged,
with one question. What was wrong is told to whoever wrote the tool, once, and those calls are
played again. A world is kept from a share of right rounds on. What was not carried out, or could
not be read, is no round; one that raised is wrong.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from rods.asking import AnswerForm, Question, Unanswered, one_of, together
from rods.calls import Call
from rods.canonical import JsonObject, frozen, keyed_random
from rods.daemon.authors.llm.showing import compact, excerpt
from rods.environments.base import Environment, Instance
from rods.environments.workers.worker import Overrun
from rods.errors import BrokenEnvironment, InfrastructureError
from rods.family.environments.checking.scenarios import carried_out
from rods.family.environments.written.building import BuiltWorld, Dropped
from rods.family.environments.written.record import CachedQuestioner
from rods.family.environments.written.scenarios import calls_schema, documents, read_calls

WANTED = (
    "one that ought to succeed",
    "one that ought to be refused, though its arguments have the right types",
)
# of each call, with its number behind the name
SAID = {"why": {"type": "string", "maxLength": 300}, "verdict": one_of("right", "wrong")}
RECENT = 8  # calls that the tester is reminded of
SHOWN_TO_WRITER = 1_500  # characters of a state
SHOWN = 6_000  # characters of a state, a result or a change
CALL_TOKENS = 128  # of each call beside the first that one answer gives, or judges


@frozen
class Round:
    """A call with the states `before` and `after` it and its result, as the checker sees it, and
    what was wrong, "" where nothing was."""

    call: Call
    before: JsonObject
    after: JsonObject
    result: str
    wrong: str = ""


async def assess(
    authors: CachedQuestioner, world: BuiltWorld, environment: Environment
) -> list[Round]:
    """Plays the rounds of the assessment in the states of `world`, at the same time. Raises Dropped
    where half of all rounds could not be judged; EndpointError, BudgetSpent."""
    settings = authors.settings.writing
    chains = range(len(world.states))
    played = [
        _chain(authors, world, environment, at, len(range(at, settings.rounds, len(chains))))
        for at in chains
    ]
    judged = [verdict for chain in await together(played) for verdict in chain]
    if len(judged) < settings.rounds:
        why = f"only {len(judged)} of {settings.rounds} rounds could be judged"
        raise Dropped("world", ["unjudged"], [why])
    return judged


def problems_of(rounds: Sequence[Round]) -> dict[str, str]:
    """What was wrong, a line a round, by tool."""
    problems = defaultdict[str, str](str)
    for played in rounds:
        if played.wrong:
            state = excerpt(compact(played.before), SHOWN_TO_WRITER)
            line = f"- assessment: {played.call}: {played.wrong}\n  in the state {state}\n"
            problems[played.call.name] += line
    return problems


async def played_again(
    authors: CachedQuestioner, world: BuiltWorld, environment: Environment, rounds: Sequence[Round]
) -> list[Round]:
    """The rounds, those that were wrong played and judged once more in the corrected `world`; one
    that cannot be judged stays wrong. Raises EndpointError, BudgetSpent."""
    again = list(rounds)
    for place, each in enumerate(rounds):
        if each.wrong:
            with suppress(Unanswered, ValueError, BrokenEnvironment):
                instance = await asyncio.to_thread(environment.reset, each.before)
                played = await asyncio.to_thread(_tried, instance, each.call, each.before)
                (again[place],) = await _judged(authors, world, [played], 0)
    return again


def hold(rounds: Sequence[Round], threshold: float) -> None:
    """Raises Dropped where the share of right rounds is under the threshold."""
    wrong = [f"{played.call}: {played.wrong}" for played in rounds if played.wrong]
    right = len(rounds) - len(wrong)
    if right < threshold * len(rounds):
        why = f"{right} of {len(rounds)} rounds were right, {threshold:g} are wanted"
        raise Dropped("world", ["assessment"], [why, *wrong][:6])


async def _chain(
    authors: CachedQuestioner, world: BuiltWorld, environment: Environment, number: int, rounds: int
) -> list[Round]:
    """Rounds in one state, each after those before; fewer than `rounds` where as many again were
    none."""
    plan = world.program.plan
    at_once = authors.settings.writing.rounds_at_once
    instance = await asyncio.to_thread(environment.reset, world.states[number])
    now = await asyncio.to_thread(instance.snapshot)
    tools = environment.tools()
    recent = list[str]()
    verdicts = list[Round]()

    asked = 0
    while len(verdicts) < rounds and asked < 2 * rounds:
        count = min(at_once, rounds - len(verdicts), 2 * rounds - asked)
        rng = keyed_random(authors.random_seed, "tested call", plan.topic, number, asked)
        place = 1_000 * number + asked
        asked += count
        fields = {
            "documentation": plan.documentation,
            "tools": documents(tools.values()),
            "state": excerpt(compact(now), SHOWN),
            "recent": "\n".join(recent[-RECENT:]) or "(none yet)",
            "wanted": "\n".join(f"{at}. {rng.choice(WANTED)}" for at in range(1, count + 1)),
        }
        form = AnswerForm({"calls": calls_schema(tools, count)})
        more = CALL_TOKENS * (count - 1)
        question = Question("world_tester", fields, form, read_calls, parts=more)
        played = list[Round]()
        try:
            for call in await authors.ask(question, plan.topic, place):
                try:
                    tried = await asyncio.to_thread(_tried, instance, call, now)
                except InfrastructureError:
                    instance = await asyncio.to_thread(environment.reset, now)
                    continue
                played.append(tried)
                if tried.wrong:
                    instance = await asyncio.to_thread(environment.reset, now)
                else:
                    recent.append(f"{compact(call.as_json())} → {excerpt(tried.result, 300)}")
                    now = tried.after
            verdicts += await _judged(authors, world, played, place)
        except Unanswered:
            continue
    return verdicts


async def _judged(
    authors: CachedQuestioner, world: BuiltWorld, played: Sequence[Round], number: int
) -> list[Round]:
    """The rounds with what the checker says of them; what raised is wrong whatever it says. Raises
    Unanswered, EndpointError, BudgetSpent."""
    if not played:
        return []
    program = world.program
    sources = dict.fromkeys(program.tools[each.call.name] for each in played)
    evidence = {
        "documentation": program.plan.documentation,
        "source": "\n\n".join((program.classes, *sources)),
        "calls": "\n\n".join(_shown(played)),
    }
    numbers = range(1, len(played) + 1)
    form = AnswerForm({f"{part}_{at}": SAID[part] for at in numbers for part in SAID})
    more = CALL_TOKENS * (len(played) - 1)
    asked = Question("world_checker", evidence, form, dict, parts=more, judges=True)
    answer = await authors.ask(asked, program.plan.topic, number)
    return [
        replace(each, wrong=answer[f"why_{at}"] or "wrong")
        if not each.wrong and answer[f"verdict_{at}"] == "wrong"
        else each
        for at, each in zip(numbers, played, strict=True)
    ]


def _shown(played: Sequence[Round]) -> Iterator[str]:
    """Calls as the checker sees them, each with the state before it; a state that the call before
    has left stands there as what that has changed."""
    left: JsonObject | None = None
    for number, tried in enumerate(played, 1):
        before = "as the call before has left it"
        if tried.before != left:
            before = excerpt(compact(tried.before), SHOWN)
        left = tried.after
        changed = excerpt("\n".join(changes(tried.before, left)), SHOWN) or "(nothing)"
        yield (
            f"{number}. The state before: {before}\nThe call: {compact(tried.call.as_json())}\n"
            f"What came back: {tried.result}\nWhat has changed in the state: {changed}"
        )


def _tried(instance: Instance, call: Call, before: JsonObject) -> Round:
    """Makes a call. Raises InfrastructureError where it was not carried out."""
    try:
        result = carried_out(instance, call)
    except InfrastructureError as error:
        if isinstance(error.__cause__, RuntimeError) and not isinstance(error.__cause__, Overrun):
            what = f"raised {str(error.__cause__)[:300]}"
            return Round(call, before, before, what, what)
        raise
    shown = excerpt(f"refused: {result.text}" if result.error else result.text, SHOWN)
    return Round(call, before, instance.snapshot(), shown)


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
