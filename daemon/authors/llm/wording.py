"""What the user says: each turn for itself (stage II, 004 Appendix D), all turns at once from the
plan's narrative (stage III, Appendix C.3), and one turn anew (the refinement of stage IV, C.6).

A text is taken only when it says what only the user can know, does not say what calls find out,
names no function and is written in sentences; what is wrong is told to the model. Queries written
one by one are also verified by the model: do they say what the calls do? Without the rewrite
(`pipeline.rewrite = false`) a query is asked for a turn at a time, from the calls of that turn
alone: no other turn and no story is shown."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from typing import Any

from rods.analysis.containment import Text, is_small, key_of, keys_in, values_in
from rods.analysis.flows import Output
from rods.analysis.schemas import limits
from rods.asking import AnswerForm, Unreadable, one_of
from rods.canonical import JsonMapping, JsonObject, Texts, canonical, content_id, frozen
from rods.composing.bind import spoken
from rods.composing.catalogue import LEFT_OUT, Slot
from rods.composing.records import BoundCall, ComposeError, Draft
from rods.daemon.authors.base import StagedAssignment
from rods.daemon.authors.llm import showing
from rods.daemon.authors.llm.questions import Context
from rods.environments.base import Environment, Tools, reference, value_of
from rods.faults import Defect
from rods.gates.texts import leaks, unnatural
from rods.gates.values import (
    Mention,
    is_credential,
    keys_of,
    mentions,
    noun_of,
    nouns_of,
    outlives,
    referent,
    referents,
    singled,
)
from rods.prompts import load
from rods.tasks import Task
from rods.transcripts import one_line

NOTHING = "(nothing in particular)"
AGAIN = 1  # times that queries which failed their verification are written anew
LONGEST = 80  # words of a turn; BFCL's own users need as many for seven calls
TEXT: JsonMapping = {"type": "string", "minLength": 1, "maxLength": 700}
CALLED = re.compile(r".*[a-z]{3}.*\D")  # a name that people say: "risks_2021.md", no "card_9772"
VERDICT = one_of("aligned", "misaligned")
GENERAL = "query_class_any"  # the query template of API classes that have none of their own


async def queries(context: Context, assignment: StagedAssignment, draft: Draft) -> Texts:
    """One text a turn; "" where no call is right. Raises ComposeError: `query_gen_failed` for texts
    that never have the form or leave out a value, `query_verify_failed` for texts that do not say
    what the calls do, `query_verify_no_tag` for a verification that cannot be read."""
    due = [turn for turn, calls in enumerate(draft.turns) if calls]
    texts = [""] * len(draft.turns)
    whole = context.settings.rewrite
    problem = ""
    for _ in range(AGAIN + 1):
        # Without the rewrite each turn is written, and read, for itself (004 Appendix R).
        groups = [due] if whole else [[turn] for turn in due]
        for group in groups:
            written = await _written(context, assignment, draft, group, texts, problem)
            for turn, text in zip(group, written, strict=True):
                texts[turn] = text
        objections: dict[int, str] = {}
        for group in groups:
            objections |= await _misaligned(context, assignment, draft, group, texts)
        if not objections:
            return tuple(texts)
        due = [*objections]
        problem = "; ".join(dict.fromkeys(objections.values())) if context.settings.feedback else ""
    turn, why = next(iter(objections.items()))
    first, *others = draft.functions([turn])
    raise ComposeError(
        "query_verify_failed",
        f"{texts[turn]!r} does not say what its calls do: {why}",
        function=first,
        functions=others,
        turn=turn,
    )


async def rewrite(
    context: Context,
    assignment: StagedAssignment,
    draft: Draft,
    worded: Texts = (),
    sections: Sequence[str] = (),
) -> Texts:
    """All turns at once; `worded` are the queries that they start from in the paper's form, or what
    is to be said anew, as `sections` of the template say. Raises ComposeError:
    `query_verify_failed` for a text that never gets its values right, `query_gen_failed` for one
    that cannot be read or is no user's."""
    count = len(draft.turns)
    tools = context.environment.tools()
    short = showing.within(draft, context.asker.roles.rewrite.results)

    def read(answer: JsonObject) -> Texts:
        texts = tuple(text.strip() for text in answer["queries"])
        _check(context.environment, draft, texts, range(count))
        return texts

    turns = [
        f"Turn {turn + 1}:\n{with_values(context, short, draft, turn)}"
        + (f"\nworded for itself: {one_line(worded[turn])}" if worded else "")
        for turn in range(count)
    ]
    fields = {
        "narrative": showing.narrative(draft.plan.narrative),
        "count": str(count),
        "functions": showing.functions(tools, draft, range(count)),
        "voices": _query_templates(context, draft.turns),
        "turns": "\n\n".join(turns),
        "longest": str(LONGEST),
    }
    form = AnswerForm({"queries": _list_schema(TEXT, count)})
    return await context.ask(
        assignment, "rewrite_turns", fields, form, read, sections=sections, parts=256 * count
    )


async def reword(
    context: Context, assignment: StagedAssignment, draft: Draft, texts: Texts, defect: Defect
) -> Texts:
    """The turn of `defect` in new words, the others as they are. Raises ComposeError as `rewrite`
    does."""
    turn = defect.turn or 0
    tools = context.environment.tools()
    # Without the rewrite a turn is mended as it was written: for itself (004 Appendix R).
    numbers = range(len(draft.turns)) if context.settings.rewrite else [turn]
    short = showing.within(draft, context.asker.roles.refine.results, numbers)

    def read(answer: JsonObject) -> Texts:
        mended = (*texts[:turn], answer["query"].strip(), *texts[turn + 1 :])
        _check(context.environment, draft, mended, [turn])
        return mended

    fields = {
        "conversation": showing.turns(short, texts, numbers),
        "turn": str(turn + 1),
        "query": texts[turn],
        "issue": defect.reason,
        "functions": showing.functions(tools, draft, numbers),
        "voices": _query_templates(context, draft.turns[turn : turn + 1]),
        "calls": with_values(context, short, draft, turn),
        "longest": str(LONGEST),
    }
    form = AnswerForm({"query": TEXT})
    return await context.ask(
        assignment,
        "refine_rewrite",
        fields,
        form,
        read,
        turn=turn,
        functions=draft.functions([turn]),
    )


async def _misaligned(
    context: Context,
    assignment: StagedAssignment,
    draft: Draft,
    turns: Sequence[int],
    texts: Sequence[str],
) -> dict[int, str]:
    """Those of `turns` whose texts do not say what their calls do, with what is wrong."""
    role = context.asker.roles.verification
    short = showing.within(draft, role.results, turns)
    form = AnswerForm(
        {
            "verdict": _list_schema(VERDICT, len(turns)),
            "problem": {"type": "string", "maxLength": role.reason},
        },
        optional=frozenset({"problem"}),
    )
    fields = {"turns": showing.turns(short, texts, turns), "count": str(len(turns))}
    answer = await context.ask(
        assignment,
        "query_verification",
        fields,
        form,
        dict,
        turn=turns[0],
        functions=draft.functions(turns),
        judges=True,
    )
    why = answer.get("problem", "") or answer["reason"]
    verdicts = zip(turns, answer["verdict"], strict=True)
    return {turn: why for turn, verdict in verdicts if verdict == "misaligned"}


async def _written(
    context: Context,
    assignment: StagedAssignment,
    draft: Draft,
    turns: Sequence[int],
    before: Sequence[str],
    problem: str,
) -> list[str]:
    calls = [draft.turns[turn] for turn in turns]
    short = showing.within(draft, context.asker.roles.query.results, turns)

    def read(answer: JsonObject) -> list[str]:
        texts = [text.strip() for text in answer["query"]]
        script = list(before)
        for turn, text in zip(turns, texts, strict=True):
            script[turn] = text
            form, values = faults(context.environment, draft, script, turn)
            if form or values:
                raise Unreadable("; ".join(form + values))
        return texts

    earlier = [
        f"turn {number + 1}: {text}" for number, text in enumerate(before[: turns[0]]) if text
    ]
    fields = {
        "story": showing.narrative(draft.plan.narrative),
        "voices": _query_templates(context, calls),
        "earlier": "\n".join(earlier) or "(nothing)",
        "turns": "\n\n".join(
            f"Turn {turn + 1}:\n{with_values(context, short, draft, turn)}" for turn in turns
        ),
        "count": str(len(turns)),
        "problem": problem,
    }
    sections = [*(["context"] if context.settings.rewrite else []), *(["mend"] if problem else [])]
    form = AnswerForm({"query": _list_schema(TEXT, len(turns))})
    functions = draft.functions(turns)
    options: JsonObject = {"turn": turns[0], "functions": functions, "parts": 200 * len(turns)}
    return await context.ask(assignment, "query", fields, form, read, sections=sections, **options)


def query_template(environment: Environment, group: str, *, fallback: bool) -> tuple[str, str, str]:
    """Name, text and hash of the query template of an API class: the environment's own
    (`query_templates`, a mapping from classes to texts), the project's, or the general one. Raises
    ComposeError("no_prompts")."""
    own = getattr(environment, "query_templates", {})
    if group in own:
        return f"{environment.name} {group}", own[group], content_id(own[group])[:12]
    for name in (f"query_class_{group}", *([GENERAL] if fallback else [])):
        with suppress(ValueError, OSError):
            template = load(name)
            return name, template.text, template.hash
    raise ComposeError(
        "no_prompts", f"no query template for the API class {group!r}, and the general one is off"
    )


def _query_templates(context: Context, turns: Iterable[Sequence[BoundCall]]) -> str:
    """The query templates of the API classes that these turns call, one a line; they count as used
    from now on."""
    tools = context.environment.tools()
    texts = dict[str, None]()
    for group in sorted({tools[bound.call.name].group for calls in turns for bound in calls}):
        name, text, digest = query_template(
            context.environment, group, fallback=context.settings.fallback_prompt
        )
        context.asker.hashes[name] = digest
        texts[f"- {text}"] = None
    return "\n".join(texts)


@frozen
class UserValue:
    """An argument that only the user can know, and the words for it. `free`: a listed option or a
    truth value, for which a user has words of their own that no rule can check. `needed`: the call
    cannot be made without it."""

    bound: BoundCall
    argument: str
    slot: Slot
    free: bool
    needed: bool

    @property
    def value(self) -> Any:
        return self.bound.call.arguments[self.argument]

    @property
    def coded(self) -> bool:
        """Whether it is a switch or a listed code rather than a word that people say."""
        text = self.slot.text
        code = "_" in text or text.isupper() or len(text) < 2
        return self.free and (code or not isinstance(self.value, (str, list)))

    def said_in(self, texts: Iterable[str]) -> bool:
        """Whether one of `texts` says it, as it is or in the slot's words."""
        return any(
            Text.of(text).contains_any_form(words)
            for text in texts
            for words in (self.value, self.slot.text)
        )


def user_values(tools: Tools, calls: Sequence[BoundCall]) -> list[UserValue]:
    """What the user has to say for `calls`, each value once. What a recipe implies, what calls find
    out and what earlier turns have named is left out; unless a call of this turn shows it among
    others: "that file" would be no longer clear, and the result would count as where it is from."""
    values: dict[bytes, UserValue] = {}
    shown: list[Output] = []
    for place, bound in enumerate(calls):
        parameters = tools[bound.call.name].by_name
        slots = [
            slot for slot in bound.slots.values() if not slot.thing and slot.value is not LEFT_OUT
        ]
        words = {canonical(slot.value): slot for slot in slots}
        for argument, flow in bound.flows.items():
            value = bound.call.arguments.get(argument)
            key = canonical(value)
            if flow.source == "earlier" and any(part.brought(argument, value) for part in shown):
                words.setdefault(key, Slot("", spoken(value), thing=True, value=value))
            if flow.source in ("user", "earlier") and key in words:
                parameter = parameters[argument]
                schema = limits(parameter)
                listed = "enum" in schema or "enum" in schema.get("items", {})
                free = listed or value is None or isinstance(value, bool)
                values.setdefault(
                    key, UserValue(bound, argument, words[key], free, parameter.required)
                )
        shown.append(Output((0, place), bound.call, bound.result))
    return list(values.values())


def _told(value: UserValue) -> str:
    """A value as prompts list it: of a list, and of one with fields, what they hold."""
    whole = value.slot.value
    texts = map(str, values_in(whole)) if isinstance(whole, (list, Mapping)) else [value.slot.text]
    return ", ".join(map(showing.compact, texts))


def looked_up(calls: Sequence[BoundCall]) -> list[Any]:
    """What calls find out for later ones, each value once: a user who says it would spare the
    policy the looking up, and the task would have another shape than its root."""
    values = [
        bound.call.arguments[argument]
        for bound in calls
        for argument, flow in bound.flows.items()
        if flow.origin is not None
    ]
    return [value for _, value in sorted({canonical(value): value for value in values}.items())]


def _said_before(tools: Tools, draft: Draft, turn: int) -> set[bytes]:
    """The values that the user has to say in earlier turns."""
    values = (user_values(tools, calls) for calls in draft.turns[:turn])
    return {canonical(value.value) for each in values for value in each}


def references(tools: Tools, draft: Draft, turn: int) -> tuple[list[str], list[str], list[str]]:
    """How the words of `turn` may refer to what was met before and its calls take up, each once,
    what needs words of their own, for which no hint would be English, and what is simply named
    again; nothing of what is looked up in this very turn and stands alone, or has to be said."""
    user_says = {canonical(value.value) for value in user_values(tools, draft.turns[turn])}
    said = _said_before(tools, draft, turn)
    met = list[Mention]()
    words = dict[str, None]()
    free = dict[str, None]()
    named = dict[str, None]()
    keys = keys_of(draft.state)
    known = keys_in(draft.state, keys=True)
    for number, calls in enumerate(draft.turns[: turn + 1]):
        for bound in calls:
            parameters = tools[bound.call.name].by_name
            for argument, flow in bound.flows.items() if number == turn else ():
                values = values_in(bound.call.arguments[argument])
                open_ones = (
                    flow.source in ("result", "earlier")
                    and not is_credential(argument)
                    and canonical(bound.call.arguments[argument]) not in user_says
                )
                for value in values if open_ones else ():
                    wanted = set(map(key_of, values))
                    noun = noun_of(parameters.get(argument))
                    meant = referent(argument, value, wanted, met, keys, noun)
                    if meant is None or (meant.latest == turn and meant.rival is None):
                        continue
                    # what the user called it by, where nothing else tells it from others: not the
                    # holder whom all cards have
                    own = [
                        leaf
                        for leaf in meant.telling.values()
                        if canonical(leaf) in said
                        and CALLED.fullmatch(str(leaf))
                        and (key_of(value) in known or key_of(leaf) not in known)
                    ]
                    new = f"the new {meant.kind}"
                    rival = None if outlives(value, meant.rival, met) else meant.rival
                    names = {mention.name for mention in meant.own}
                    others = [
                        nouns_of([one.name])
                        for one in met
                        if one.turn == meant.latest and key_of(one.value) not in wanted
                    ]
                    alike = any(nouns_of([name]) in others for name in names)
                    # `address` is no "mail box" to whoever met a `sender`
                    apt = nouns_of([meant.kind]) & nouns_of([argument, *names])
                    if rival is None and (meant.amount or (apt and not alike)):
                        words[f"that {meant.kind}"] = None
                    elif flow.origin is None and CALLED.fullmatch(str(value)):
                        named[value] = None
                    elif own:
                        free[f"{own[0]} ({meant.kind})"] = None
                    elif singled(new, value, wanted, argument, met, known):
                        words[new] = None
                    elif rival is None:
                        free[f"{value} ({meant.own[-1].name})"] = None
                    else:
                        free[meant.words or f"{value}, not {rival}"] = None
            met += mentions(number, bound.call, bound.result)
            keys |= keys_of(value_of(bound.result))
    return list(words), list(free), list(named)


def with_values(context: Context, short: Draft, draft: Draft, turn: int) -> str:
    """The calls of a turn as prompts show them (`short` of the draft); what must be said, also of
    a tool that another one could stand for, what must not because calls find it out, and how it may
    be referred to; what needs words of one's own stands apart."""
    tools = context.environment.tools()
    calls = short.turns[turn]
    named = context.catalogue.named
    words = [
        showing.compact(named[name][0]) for bound in calls if (name := bound.call.name) in named
    ]
    before = _said_before(tools, draft, turn)
    said = user_values(tools, calls)
    again = [value for value in said if not value.slot.thing and canonical(value.value) in before]
    said = [value for value in said if value not in again]
    pointed, free, renamed = references(tools, draft, turn)
    lists = {
        "must say": [*(_told(value) for value in said if not value.coded), *words] or [NOTHING],
        "say again, or refer to": [*map(_told, again), *map(showing.compact, renamed)],
        "never say": map(showing.compact, looked_up(calls)),
        "refer to": map(showing.compact, pointed),
        "in words of your own": [
            *(_told(value) for value in said if value.coded),
            *map(showing.compact, free),
        ],
    }
    lines = [f"{name}: {listed}" for name, each in lists.items() if (listed := ", ".join(each))]
    return "\n".join([showing.turn_lines(calls), *lines])


def form_faults(environment: Environment, calls: Sequence[BoundCall], text: str) -> list[str]:
    """Why no user would say `text` for `calls`: names of functions, artefacts, no sentence, too
    long."""
    truth = tuple(bound.call for bound in calls)
    tools = tuple(dict.fromkeys(call.name for call in truth))
    alone = Task(reference(environment), "base", (text,), (truth,), tools)
    values = (leaf for call in truth for leaf in values_in(call.arguments))
    lines = reduce(lambda left, value: left.replace(str(value), " "), values, text).splitlines()
    broken = ["has line breaks outside a value"] * (len(lines) > 1)
    return broken + [reason.text for reason in leaks(environment, alone)] + unnatural(text, LONGEST)


def faults(
    environment: Environment, draft: Draft, texts: Sequence[str], turn: int
) -> tuple[list[str], list[str]]:
    """What the model should put right in the text of `turn`, in its form and in its values: those
    of its calls that neither it nor an earlier text says, those that it says and calls are to find
    out, and those that it leaves open."""
    tools = environment.tools()
    calls = draft.turns[turn]
    now = Text.of(texts[turn])
    unsaid = [
        value
        for value in user_values(tools, calls)
        if not value.free and not value.said_in(texts[turn if value.slot.thing else 0 : turn + 1])
    ]
    missing = [f"turn {turn + 1} must say {_told(value)}" for value in unsaid]
    turns = draft.turns[: turn + 1]
    own = [each.value for earlier in turns for each in user_values(tools, earlier)]
    revealed = [
        f"turn {turn + 1} must not say {showing.compact(value)}, which is found out by a call"
        for value in looked_up(calls)
        if not is_small(value) and now.contains_any_form(value) and value not in own
    ]
    truth = tuple(tuple(bound.call for bound in calls) for calls in turns)
    so_far = Task(
        reference(environment), "base", (*texts[: turn + 1],), truth, (*tools,), state=draft.state
    )
    results = [[bound.result for bound in calls] for calls in turns]
    unclear = [
        f"turn {turn + 1}: {reason.text}"
        for reason in referents(environment, so_far, results)
        if reason.turn == turn and not reason.doubt
    ]
    return form_faults(environment, calls, texts[turn]), missing + revealed + unclear


def _check(environment: Environment, draft: Draft, texts: Texts, turns: Iterable[int]) -> None:
    """Raises Unreadable, with all that the model should put right in these turns."""
    forms = list[str]()
    values = list[str]()
    at_fault = list[int]()
    for turn in turns:
        form, value = faults(environment, draft, texts, turn)
        forms += [f"turn {turn + 1}: {reason}" for reason in form]
        values += value
        at_fault += [turn] if form or value else []
    if at_fault:
        issues = "; ".join(forms + values)
        raise Unreadable(
            issues,
            error=None if forms else "query_verify_failed",
            functions=draft.functions(at_fault),
        )


def _list_schema(schema: Any, count: int) -> JsonObject:
    return {"type": "array", "items": schema, "minItems": count, "maxItems": count}
