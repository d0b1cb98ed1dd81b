"""The assessment of a world by two agents (003 §3.3): a tester that sees no source chooses calls,
drawn by chance to succeed or to be refused; a checker that sees it says of each whether call,
result and change are right. A world is kept from a share of right rounds on. What was not carried
out, or could not be read, is no round; one that raised is wrong.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

from rods.asking import AnswerForm, Question, Unanswered, one_of, together
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, keyed_random
from rods.daemon.authors.llm.showing import compact, excerpt
from rods.environments.base import Environment, Instance
from rods.environments.workers.worker import Overrun
from rods.errors import InfrastructureError
from rods.family.environments.checking.scenarios import carried_out
from rods.family.environments.written.building import BuiltWorld, Dropped
from rods.family.environments.written.record import FORMS, CachedQuestioner

WANTED = (
    "one that ought to succeed",
    "one that ought to be refused, though its arguments have the right types",
)
RECENT = 8  # calls that the tester is reminded of
SHOWN = 6_000  # characters of a state, a result or a change


async def assess(
    authors: CachedQuestioner, world: BuiltWorld, environment: Environment
) -> list[str]:
    """Plays the rounds of the assessment in the states of `world`, at the same time; what was wrong
    with each, "" for a right one. Raises Dropped where the share of right ones is under the
    threshold, or half of all rounds could not be judged; EndpointError, BudgetSpent."""
    settings = authors.settings.writing
    chains = len(world.states)
    shares = [settings.rounds // chains + (at < settings.rounds % chains) for at in range(chains)]
    played = [
        _chain(authors, world, environment, at, rounds)
        for at, rounds in enumerate(shares)
        if rounds
    ]
    judged = [verdict for chain in await together(played) for verdict in chain]
    rounds = len(judged)
    right = judged.count("")
    if rounds < settings.rounds:
        raise Dropped(
            "world", ["unjudged"], [f"only {rounds} of {settings.rounds} rounds could be judged"]
        )
    if rounds and right / rounds < settings.threshold:
        why = f"{right} of {rounds} rounds were right, {settings.threshold:g} are wanted"
        raise Dropped("world", ["assessment"], [why, *filter(None, judged)][:6])
    return judged


async def _chain(
    authors: CachedQuestioner, world: BuiltWorld, environment: Environment, number: int, rounds: int
) -> list[str]:
    """What was wrong, round by round, "" for a right one; fewer than `rounds` where as many again
    were no rounds."""
    plan = world.program.plan
    program = world.program
    instance = await asyncio.to_thread(environment.reset, world.states[number])
    tools = environment.tools()
    form = AnswerForm({"tool": one_of(*tools), "arguments": {"type": "object"}})
    documents = "\n".join(compact(tool.schema()) for tool in tools.values())
    recent = list[str]()
    verdicts = list[str]()

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
            result, raised, after = await asyncio.to_thread(_tried, instance, call)
        except InfrastructureError:
            instance = await asyncio.to_thread(environment.reset, before)
            continue
        recent.append(f"{compact(call.as_json())} → {excerpt(result, 300)}")
        if raised:
            verdicts.append(f"{call}: {raised}")
            instance = await asyncio.to_thread(environment.reset, before)
            continue
        evidence = {
            "documentation": plan.documentation,
            "source": f"{program.state}\n\n{program.tools[call.name]}",
            "call": compact(call.as_json()),
            "result": result,
            "changes": excerpt("\n".join(changes(before, after)), SHOWN) or "(nothing)",
        }
        try:
            asked = Question("world_checker", evidence, FORMS["world_checker"], dict)
            opinion = await authors.ask(asked, plan.topic, place)
        except Unanswered:
            continue
        verdicts.append(
            ""
            if opinion["verdict"] == "right"
            else f"{call}: {str(opinion.get('reason', ''))[:300]}"
        )
    return verdicts


def _tried(instance: Instance, call: Call) -> tuple[str, str, JsonObject]:
    """What a call gave, as the checker sees it; what the world raised, "" where it answered; and
    the state after it. Raises InfrastructureError where the call was not carried out."""
    try:
        result = carried_out(instance, call)
    except InfrastructureError as error:
        if isinstance(error.__cause__, RuntimeError) and not isinstance(error.__cause__, Overrun):
            return "", f"raised {str(error.__cause__)[:200]}", {}
        raise
    return (
        excerpt(f"refused: {result.text}" if result.error else result.text, SHOWN),
        "",
        instance.snapshot(),
    )


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
