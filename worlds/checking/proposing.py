"""Proposes what failure looks like in a world that flags none: calls that cannot succeed are made
(`rods.analysis.impostors`), and what tells their answers from those to honest calls becomes a rule
(`rods.environments.failing`). Nothing is written down here; examples are shown."""

from collections.abc import Callable, Collection, Sequence

from rods.analysis.impostors import impostor, signs
from rods.analysis.sampling import Sampler
from rods.calls import Call
from rods.canonical import JsonObject, canonical, keyed_random
from rods.environments.base import Environment, Result
from rods.environments.failing import holds
from rods.errors import InfrastructureError

MOST = 40  # calls of `proposed`
EXAMPLES = 3  # that are shown of a rule
BREAKS = 2  # calls that end their world, after which none is made any more
_SHOWN = 120  # characters of a call, and of an answer


def proposals(
    environment: Environment,
    calls: Sequence[Call],
    ask: Callable[[Call], Result],
    trusted: Collection[str] | None = None,
) -> list[tuple[str, str]]:
    """Rules for failures that are told as ordinary results, as a description writes them, each with
    examples. `ask` makes the calls, of `trusted` tools alone where these are given, and their
    impostors."""
    tools = environment.tools()
    honest: list[tuple[str, Result]] = []
    found: dict[bytes, tuple[JsonObject, dict[str, str]]] = {}  # with the tool of each example
    for call in calls:
        own = ask(call) if trusted is None or call.name in trusted else None
        other = impostor(tools[call.name], call)
        answer = Result("", error="tool") if other is None else ask(other.call)
        ordinary = own is not None and own.error is None
        vain = own is not None and other is not None and own.text == other.answer(answer.text)
        if own is not None and ordinary and not vain:
            honest.append((call.name, own))
        if other is None:
            continue
        for sign in signs(answer, other.names) if answer.error is None else ():
            if vain or own is None or not (ordinary and holds(sign, call.name, own)):
                examples = found.setdefault(canonical(sign), (sign, {}))[1]
                for each in (other.call, *([call] if vain else [])):
                    said = answer.text if each is other.call else other.answer(answer.text)
                    examples[f"{str(each)[:_SHOWN]} → {said[:_SHOWN]!r}"] = call.name
                break
    rules = []
    for sign, examples in found.values():
        # a job that has failed is shown by a call that has not
        named = {*examples.values()}
        if any(holds(sign, *pair) for pair in honest if pair[0] not in named):
            sign = {**sign, "tools": sorted(named)}
        rules.append((canonical(sign).decode(), "; ".join([*examples][:EXAMPLES])))
    return rules


def proposed(environment: Environment, *, outside: bool) -> tuple[list[tuple[str, str]], list[str]]:
    """The proposals of a few calls in a fresh world: of tools that are declared to read, and where
    nothing `outside` can be changed, impostors of all others; and what was said of calls that broke
    their world. Raises InfrastructureError where there is no world, UserError."""
    sampler = Sampler(keyed_random(0, "proposing"))
    tools = environment.tools().values()
    calls = [sampler.call(tool) for tool in tools if tool.reads or not outside][: MOST // 2]
    reads = [tool.name for tool in tools if tool.reads]
    world = environment.reset(None)
    broken: list[str] = []

    def ask(call: Call) -> Result:
        nonlocal world
        if len(broken) < BREAKS:
            try:
                return world.call(call)
            except InfrastructureError as error:
                broken.append(str(error))
                world = environment.reset(None)
        return Result("", error="infrastructure")

    return proposals(environment, calls, ask, reads), broken
