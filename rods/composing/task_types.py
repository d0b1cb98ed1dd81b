"""Makes a task of a draft and its texts, in the form of its type (004 §3.3 stage V, Appendix P).

A long context is padded and its calls run again. In a turn without right calls miss_func holds out
a tool for each part of the request that could be done otherwise, and the next turn says in the
fixed sentence that they are back; miss_param blurs one value of the request, and the next turn
supplies it and asks for whatever else it serves. The plan decides which turns have no calls. The
provenance of the task:

    {"plan": {…},                              the plan, with its narrative
     "flows": [[{argument: {"source": …, "origin": [turn, call]}}, …], …],
                                               as in `flows.Flow`, one for each call
     "results": [[text, …], …],                what every call gave from the task's own state
     "recipes": [[name, …], …],                the recipe of every call
     "traits": [[…], …],                       of each turn: "multi" (several calls), "lookup" (a
                                               read feeds a later call), "swap" (arguments easily
                                               swapped), "sibling" (a tool easily taken for
                                               another), "answer" (no call is right)
     "missing": [{"turn": t, "tool": name} or
                 {"turn": t, "argument": name, "value": …, "domain": …}, …]}"""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from rods.analysis.containment import Text
from rods.analysis.flows import Flow
from rods.analysis.plausible_calls import shows
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, Texts
from rods.composing import wording
from rods.composing.catalogue import Catalogue, Slot
from rods.composing.lexicon import runs_on, sought
from rods.composing.records import BoundCall, ComposeError, Draft
from rods.environments.base import Environment, reference
from rods.tasks import RETURN_SENTENCE, Task, TaskType


def apply(
    catalogue: Catalogue,
    environment: Environment,
    draft: Draft,
    texts: Sequence[str],
    type: TaskType,
    rng: Random,
    *,
    fair: bool = True,
) -> Task:
    """The finished task. `texts` has one text a turn, "" where no call is right. With `fair`,
    nothing that is asked for there shall be possible there; without, one tool is held out, or one
    value blurred, wherever it stands. Raises ComposeError: `no_pattern` when the draft has not the
    turns that `type` needs, or no value can be blurred; `vm_exec_failed` when a call fails in the
    padded state; `conversation_construct_failed` for texts that do not fit.
    """
    script = list(texts)
    later_tools: dict[int, Texts] = {}
    missing: list[JsonObject] = []
    for turn in blanks(draft, texts, type):
        script[turn] = script[turn + 1]
        if type == "miss_func":
            looking = sought(
                environment, script[turn], (bound.call.name for bound in draft.turns[turn + 1])
            )
            choices = (
                removable(catalogue, draft, turn + 1, looking)
                if fair
                else [missable(catalogue, draft, turn + 1)]
            )
            later_tools[turn + 1] = tuple(rng.choice(tools) for tools in choices)
            script[turn + 1] = RETURN_SENTENCE
            missing += [{"turn": turn, "tool": tool} for tool in later_tools[turn + 1]]
        else:
            rest = ""
            if fair:
                script[turn + 1], rest = wording.parted(
                    catalogue, draft, turn + 1, script[turn + 1], rng
                )
            blurred, supplied, gap = _blurred(
                catalogue, environment, draft, turn + 1, script, rng, fair=fair
            )
            script[turn + 1] = f"{supplied} {rest}".rstrip()
            script[turn] = blurred
            missing.append({"turn": turn, **gap})
    return finished(
        catalogue, environment, draft, script, type, rng, later_tools=later_tools, missing=missing
    )


def blanks(draft: Draft, texts: Sequence[str], type: TaskType) -> list[int]:
    """The turns in which no call is right. Raises ComposeError as `apply` where texts or turns do
    not fit `type`."""
    if len(texts) != len(draft.turns):
        raise ComposeError(
            "conversation_construct_failed", f"{len(texts)} texts for {len(draft.turns)} turns"
        )
    turns = [turn for turn, calls in enumerate(draft.turns) if not calls]
    if bool(turns) != (type in ("miss_func", "miss_param")):
        raise ComposeError(
            "no_pattern", f"{len(turns)} turns without calls do not make the type {type}"
        )
    for turn in turns:
        if turn + 1 >= len(draft.turns) or not draft.turns[turn + 1]:
            raise ComposeError(
                "no_pattern", "nothing is asked again after a turn without calls", turn=turn
            )
    return turns


def finished(
    catalogue: Catalogue,
    environment: Environment,
    draft: Draft,
    script: Sequence[str],
    type: TaskType,
    rng: Random,
    *,
    later_tools: Mapping[int, Texts],
    missing: Sequence[JsonMapping],
) -> Task:
    """The task of a script that has the form of its type already: pads a long context, chooses the
    tools that are shown, writes the provenance. Raises ComposeError("vm_exec_failed") when a call
    fails in the padded state."""
    state: JsonMapping = draft.state
    results = [[bound.result.text for bound in calls] for calls in draft.turns]
    if type == "long_context":
        state, results = padded(catalogue, environment, draft, script, rng)
    used = {bound.call.name for calls in draft.turns for bound in calls}
    provenance: JsonObject = {
        "plan": draft.plan.as_json(),
        "flows": [
            [_settled(bound, turn, script) for bound in calls]
            for turn, calls in enumerate(draft.turns)
        ],
        "results": results,
        "recipes": [[bound.recipe for bound in calls] for calls in draft.turns],
        "traits": [_traits(catalogue, turn, calls) for turn, calls in enumerate(draft.turns)],
    }
    if missing:
        provenance["missing"] = [dict(gap) for gap in missing]
    truth = tuple(tuple(bound.call for bound in calls) for calls in draft.turns)
    tools = _shown(catalogue, environment, used, state, rng)
    return Task(
        reference(environment),
        type,
        tuple(script),
        truth,
        tools,
        later_tools,
        state,
        provenance=provenance,
    )


def missable(catalogue: Catalogue, draft: Draft, turn: int) -> list[str]:
    """The tools of `turn` that may be held out until it: no earlier turn uses them, and what they
    tell is not `known` without them; rather those
    that act than those that only read. Raises ComposeError("no_pattern") when there is none."""
    before = {bound.call.name for calls in draft.turns[:turn] for bound in calls} | catalogue.known
    tools = sorted({bound.call.name for bound in draft.turns[turn]} - before)
    if not tools:
        raise ComposeError("no_pattern", "every tool of the turn is needed earlier", turn=turn)
    return [tool for tool in tools if tool not in catalogue.lookups] or tools


def removable(
    catalogue: Catalogue, draft: Draft, turn: int, looked_for: Collection[str] = frozenset()
) -> list[list[str]]:
    """The tools to hold out until `turn` so that nothing of it can be done before, one of each
    list. A recipe whose first acting call takes a result that is not to be had, or needs a tool
    that is held out already, has no list.

    The tool is that of the recipe's first acting call, else of a look-up before it, or of any where
    all only look up, and besides each look-up before it that is `looked_for`: that the request
    asks for by itself; no earlier turn uses it, and it is not `known`. Raises
    ComposeError("no_pattern") when a recipe has none."""
    before = {bound.call.name for calls in draft.turns[:turn] for bound in calls} | catalogue.known
    calls = draft.turns[turn]
    idle = catalogue.lookups | catalogue.common
    lost: set[int] = set()  # calls that nobody can make before
    choices: list[list[str]] = []
    for request in wording.requests(catalogue, calls):
        places = range(request.start, request.start + len(request.recipe.steps))
        acting = next((place for place in places if calls[place].call.name not in idle), None)
        needed = places if acting is None else range(request.start, acting + 1)
        names = list(dict.fromkeys(calls[place].call.name for place in needed))
        looking = [name for name in names if name in looked_for and name in idle]
        if not before.isdisjoint(looking):
            raise ComposeError(
                "no_pattern",
                f"{' and '.join(looking)} can be done before, and {request.recipe.name} asks "
                "for it",
                function=request.recipe.name,
                turn=turn,
            )
        held = {tool for tools in choices if len(tools) == 1 for tool in tools}
        origins = [
            flow.origin
            for place in needed
            for flow in calls[place].flows.values()
            if flow.origin is not None
        ]
        if held.isdisjoint(names) and not any(
            number == turn and index in lost for number, index in origins
        ):
            tools = [tool for tool in names if tool not in before]
            if not tools:
                raise ComposeError(
                    "no_pattern",
                    f"every tool of {request.recipe.name} is needed earlier",
                    function=request.recipe.name,
                    turn=turn,
                )
            chosen = [tool for tool in tools if tool not in idle] or ([] if looking else tools)
            choices += [chosen] if chosen else []
        choices += [[name] for name in looking if [name] not in choices]
        lost.update(places if acting is None else range(acting, places.stop))
    return choices


def _blurred(
    catalogue: Catalogue,
    environment: Environment,
    draft: Draft,
    turn: int,
    script: Sequence[str],
    rng: Random,
    *,
    fair: bool,
) -> tuple[str, str, JsonObject]:
    """The request with one said value blurred, the sentence that supplies it, and what was taken
    away: with `fair` a value of its first recipe, of the earliest call that has one, that no tool
    shows."""
    request = script[turn]
    book = catalogue.book
    before = [bound for calls in draft.turns[:turn] for bound in calls]
    texts_before = [
        Text.of(" ".join(script[: turn - 1])),
        *(Text.shown(bound.result.text) for bound in before),
    ]
    said = {catalogue.family(slot.domain) for bound in before for slot in bound.slots.values()}
    choices: list[tuple[Slot, Call, str]] = []
    asked = wording.requests(catalogue, draft.turns[turn])
    for recipe in asked[:1] if fair else asked:
        for slot in recipe.slots.values():
            if slot.thing or catalogue.family(slot.domain) not in book.vague or not slot.fills:
                continue
            had = any(text.contains_exact(slot.text) for text in texts_before)
            # "the words that I chose" would be those
            had |= fair and runs_on(slot.text) and catalogue.family(slot.domain) in said
            if len(_word(slot.text).findall(request)) == 1 and not had:
                step, parameter = slot.fills[0]
                choices.append((slot, draft.turns[turn][recipe.start + step].call, parameter))
    if fair:
        tools = environment.tools()
        calls_before = [bound.call for bound in before]
        groups = {tools[bound.call.name].group for calls in draft.turns for bound in calls}
        usable = [tool for tool in tools.values() if tool.group in groups]
        show = partial(shows, environment, draft.state, calls_before, script[: turn - 1], usable)
        hidden = [
            (slot, call, name)
            for slot, call, name in choices
            if not show(name, call.arguments[name])
        ]
        # the tool may not be among those shown
        choices = hidden or (choices if len(usable) > catalogue.shown else [])
        earliest = min((slot.fills[0][0] for slot, _, _ in choices), default=0)
        choices = [choice for choice in choices if choice[0].fills[0][0] == earliest]
        first_calls = [bound.call.name for bound in draft.turns[turn][asked[0].start :][:earliest]]
        if first_calls and sought(environment, request, first_calls):
            raise ComposeError(
                "no_pattern", f"{', '.join(first_calls)}: asked for, and can be done", turn=turn
            )
    if not choices:
        first = draft.turns[turn][0].recipe if fair else None
        raise ComposeError(
            "no_pattern", "no value of the request can be blurred", function=first, turn=turn
        )
    slot, call, parameter = rng.choice(choices)
    family = catalogue.family(slot.domain)
    vague = rng.choice(book.vague[family])
    blurred = _word(slot.text).sub(lambda _: vague, request)
    supplied = (
        rng.choice(book.supply[family]).format(value=wording.quoted(slot, fair)).replace("''", "'")
    )
    return (
        blurred,
        supplied,
        {"argument": parameter, "value": call.arguments[parameter], "domain": family},
    )


def _word(text: str) -> re.Pattern[str]:
    """Where `text` is said as a whole, with the quotes around it if it has some."""
    words = re.escape(text)
    return re.compile(rf"(?<!\w)(?:'{words}'|{words})(?!\w)", re.IGNORECASE)


def padded(
    catalogue: Catalogue, environment: Environment, draft: Draft, script: Sequence[str], rng: Random
) -> tuple[JsonObject, list[list[str]]]:
    """A longer world in which the same calls still succeed and results still hold what later calls
    take from them; and these results. Raises ComposeError("vm_exec_failed") when they do not."""
    values = (
        str(value)
        for calls in draft.turns
        for bound in calls
        for value in bound.call.arguments.values()
    )
    spoken = frozenset(
        word for text in (*script, *values) for word in re.findall(r"\w+", text.lower())
    )
    state = catalogue.pad(draft, spoken, rng)
    try:
        instance = environment.reset(state)
    except ValueError as error:
        raise ComposeError("vm_exec_failed", f"the padded state is illegal: {error}") from error
    texts: list[list[str]] = []
    for turn, calls in enumerate(draft.turns):
        texts.append([])
        for bound in calls:
            result = instance.call(bound.call)
            detail = (
                f"{bound.call} gave {result.text} in the padded state"
                if result.error is not None
                else ""
            )
            texts[turn].append(result.text)
            for argument, flow in bound.flows.items():
                if detail or flow.origin is None:
                    continue
                value = bound.call.arguments[argument]
                (source_turn, source) = flow.origin
                if not Text.shown(texts[source_turn][source]).contains_exact(value):
                    detail = f"the padded state hides {value!r}"
            if detail:
                raise ComposeError(
                    "vm_exec_failed", detail, function=bound.call.name, turn=turn, call=bound.call
                )
    return state, texts


def lengthened(task: Task, draft: Draft) -> bool:
    """Whether a long context is longer than its draft, by its state or, where a flag pads the
    world, by its results."""
    drafted = sum(len(bound.result.text) for calls in draft.turns for bound in calls)
    length = sum(len(text) for texts in task.provenance["results"] for text in texts)
    return _size(task.state) > _size(draft.state) or length > drafted


def _size(state: Any) -> int:
    return 1 + sum(map(_size, state.values())) if isinstance(state, Mapping) else 1


def _shown(
    catalogue: Catalogue, environment: Environment, used: set[str], state: JsonMapping, rng: Random
) -> Texts:
    """The used tools, their siblings, and by chance others of the same classes and of those that
    are present in `state`, in the environment's order; classes that are present come in theirs."""
    tools = environment.tools()
    present = list(catalogue.present(state))
    groups = {tools[name].group for name in used}.union(present)
    names = [name for name, tool in tools.items() if tool.group in groups]
    wanted = used | {catalogue.siblings[name] for name in used if name in catalogue.siblings}
    spare = [name for name in names if name not in wanted]
    rng.shuffle(spare)
    wanted |= set(spare[: max(0, catalogue.shown - len(wanted))])
    in_order = [name for name in tools if name in wanted]
    return tuple(
        sorted(in_order, key=lambda name: present.index(tools[name].group)) if present else in_order
    )


def _settled(bound: BoundCall, turn: int, script: Sequence[str]) -> JsonObject:
    """A call's flows after wording: `user` when this turn's text says the value, `earlier` when
    only one before."""
    flows = dict(bound.flows)
    for name, flow in bound.flows.items():
        mentions = [
            Text.of(text).contains_exact(bound.call.arguments[name]) for text in script[: turn + 1]
        ]
        if flow.source in ("user", "earlier") and any(mentions):
            flows[name] = Flow("user" if mentions[-1] else "earlier")
    return {name: flow.as_json() for name, flow in flows.items()}


def _traits(catalogue: Catalogue, turn: int, calls: Sequence[BoundCall]) -> list[str]:
    names = {bound.call.name for bound in calls}
    origins = (
        flow.origin for bound in calls for flow in bound.flows.values() if flow.origin is not None
    )
    holds = {
        "multi": len(calls) > 1,
        "lookup": any(
            calls[index].call.name in catalogue.lookups
            for number, index in origins
            if number == turn
        ),
        "swap": bool(names & catalogue.swaps.keys()),
        "sibling": bool(names & catalogue.siblings.keys()),
        "answer": not calls,
    }
    return [trait for trait, true in holds.items() if true]
