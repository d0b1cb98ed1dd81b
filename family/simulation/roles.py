"""The questions to models that play a simulated environment (001 §2.2, Appendix A), each with the
form of its answer and what is made of it. Each role reads what equations 3, 7, 8 and 10 say,
or less (§4.2: `information`), and what it may not read stands nowhere in its question."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from rods.analysis.containment import Text, values_in
from rods.analysis.impostors import signs
from rods.analysis.schemas import Checker, limits
from rods.asking import AnswerForm, Question, Schema, Unreadable, obj, one_of, read_forms
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, frozen
from rods.conversations import RUBRIC_LEVELS
from rods.environments.base import Result, Tool
from rods.episode.engine import Exchange, NeedOutcome, Outcome
from rods.family.simulation.difficulty import Levels
from rods.family.simulation.documents import ToolRepository
from rods.family.simulation.generating import CRITERIA, DrawnTask, Errand, brings, said, unheard
from rods.family.simulation.ledger import ToolAnswer
from rods.family.simulation.settings import Information
from rods.transcripts import ROOM, line, transcript

Role = Literal["simulated_task", "simulated_tool", "simulated_user", "simulated_verifier"]
# What each role may read of the task beside tools and conversation (001 eq. 7, 8, 10).
INFORMATION: Mapping[Role, tuple[Information, ...]] = {
    "simulated_tool": ("intent",),
    "simulated_user": ("intent", "persona"),
    "simulated_verifier": ("intent", "persona", "expected"),
}
FORMS = read_forms(Path(__file__).with_name("forms.toml"))
MET = one_of("met", "partly", "missed")


@frozen
class Past:
    """What has happened in an episode: what user and policy said to each other, and the calls, each
    with its turn from 1 and its result."""

    talk: Exchange = ()
    history: Sequence[tuple[int, Call, Result]] = ()

    def conversation(self) -> str:
        messages = [
            {"turn": number, who: text}
            for number, texts in enumerate(self.talk, start=1)
            for who, text in zip(("user", "assistant"), texts, strict=True)
            if text
        ]
        return transcript(messages) or "(nothing yet)"

    def calls(self) -> str:
        """Taken from what was called and returned; nothing that a text says is a call."""
        records = [
            {
                "turn": turn,
                "call": call.name,
                "arguments": dict(call.arguments),
                "result": result.text,
            }
            for turn, call, result in self.history
        ]
        return transcript(records) or "(none)"


@frozen
class Assessment:
    """What a verifier found: −1, 0 or 1, the criteria that were met and those that were so in part,
    and its reason, which are kept in the trace."""

    verdict: Literal[-1, 0, 1]
    met: tuple[str, ...] = ()
    partly: tuple[str, ...] = ()
    reason: str = ""


def ask_for_task(
    repository: ToolRepository, tools: Sequence[Tool], levels: Levels
) -> Question[DrawnTask]:
    """A task over `tools`. Tools without a category of the repository are not asked about."""
    forms = [
        obj({"name": {"const": tool.name}, "arguments": arguments_schema(tool)}) for tool in tools
    ]
    exactly = {"minItems": levels.calls, "maxItems": levels.calls}
    form = _with_field(
        "simulated_task", "calls", {"type": "array", "items": {"anyOf": forms}, **exactly}
    )
    areas = (repository.categories[tool.group].rstrip(".") for tool in tools)
    # there is nothing to come back for where one call has all that it needs
    turns = levels.turns if levels.calls > 1 or levels.ambiguity else 0
    fields = {
        "tools": "\n".join(
            line({**tool.schema(), "returns": [*(tool.result or {}).get("properties", ())]})
            for tool in tools
        ),
        "area": "; ".join(dict.fromkeys(areas)),
        "calls": f"{levels.calls} call{'s' if levels.calls > 1 else ''}",
        "turns": said(f"turns_{min(2, turns)}"),
        "persona": said(f"persona_{levels.persona}"),
        "ambiguity": said(f"ambiguity_{levels.ambiguity}"),
    }

    def read(answer: JsonMapping) -> DrawnTask:
        calls = _calls_of(answer["calls"], tools, levels.calls)
        knows = {fact["topic"]: fact["words"] for fact in answer["knows"]}
        query = Text.of(answer["first_query"])
        heard = Text.of(" | ".join([query.folded, *chain(*knows.items())]))
        meant = dict[str, str]()
        for other in answer.get("said", ()):
            if heard.contains_exact(words := other["words"]):  # "180k" stands for 180 and for km
                meant[words] = (
                    f"{meant[words]}, {other['value']}" if words in meant else str(other["value"])
                )
        fault = _unreachable(calls, tools, query, heard, meant, levels)
        if fault := fault or _gone(calls, repository):
            raise Unreadable(fault)
        return DrawnTask(
            levels=levels,
            category=tools[0].group,
            tools=tuple(tool.name for tool in tools),
            calls=calls,
            intent=answer["intent"].strip(),
            first_query=answer["first_query"].strip(),
            further=(),
            knows={**meant, **knows},
            hidden=tuple(
                topic for topic, words in knows.items() if not query.contains_any_form(words)
            ),
            manner=answer["manner"].strip(),
            criteria=CRITERIA[: levels.criteria + 1],
        )

    return Question("simulated_task", fields, form, read, mend="mend")


def ask_tool(
    task: Errand,
    tools: Sequence[Tool],
    past: Past,
    call: Call,
    *,
    known: Sequence[JsonMapping] = (),
    found: Sequence[Call] = (),
    information: Collection[Information] = INFORMATION["simulated_tool"],
) -> Question[ToolAnswer]:
    """What `call` returns. `known` is what was shown before (`Ledger.things`), and `found` what an
    earlier call of the errand has to bring (`found_by_calls`): empty for the paper's stateless
    tools. Raises KeyError for a call of none of `tools`."""
    tool = {offered.name: offered for offered in tools}[call.name]
    result = tool.result or {"type": "object"}
    form = replace(
        _with_field("simulated_tool", "result", result), bound=("result", "status", "ok")
    )
    fields, sections = _briefed("simulated_tool", task, tools, past, information)
    named = values_in(call.arguments)
    # what it asks for
    things = sorted(known, key=lambda thing: any(leaf in named for leaf in values_in(dict(thing))))
    fields |= {"calls": past.calls(), "known": transcript(things, ROOM // 4)}
    fields |= {"call": line(call.as_json()), "result": line(result)}
    found = found if "intent" in information else ()
    fields["found"] = transcript([later.as_json() for later in found])

    def read(answer: JsonMapping) -> ToolAnswer:
        if answer["status"] != "ok":
            return ToolAnswer(answer["status"], message=answer.get("message", "").strip())
        if fault := Checker(result).fault(answer["result"]):
            raise Unreadable(f"result {fault}")
        told = ToolAnswer("ok", answer["result"])
        # where its document does not say what its fields mean
        if "properties" not in result and any("field" in sign for sign in signs(told.result())):
            return ToolAnswer("refused", message=told.result().text)
        return told

    added = (*sections, *["known"] * bool(known), *["found"] * bool(found))
    return Question("simulated_tool", fields, form, read, sections=added, mend="mend")


def ask_user(
    task: Errand,
    tools: Sequence[Tool],
    past: Past,
    information: Collection[Information] = INFORMATION["simulated_user"],
) -> Question[str]:
    """What the user says next; "" ends the conversation. It is shown what it has heard: no
    calls."""
    fields, sections = _briefed("simulated_user", task, tools, past, information)

    def read(answer: JsonMapping) -> str:
        return str(answer["message"]).strip()

    return Question("simulated_user", fields, FORMS["simulated_user"], read, sections=sections)


def ask_verifier(
    task: Errand,
    tools: Sequence[Tool],
    past: Past,
    information: Collection[Information] = INFORMATION["simulated_verifier"],
) -> Question[Assessment]:
    """Which of the task's criteria the whole conversation meets. One that is none of `CRITERIA` is
    asked in its own words."""
    words = {
        name if name in CRITERIA else f"criterion_{number}": said(name)
        if name in CRITERIA
        else name
        for number, name in enumerate(task.criteria, start=1)
    }
    form = AnswerForm({**dict.fromkeys(words, MET), "severe": one_of("yes", "no")})
    fields, sections = _briefed("simulated_verifier", task, tools, past, information)
    fields |= {
        "calls": past.calls(),
        "criteria": "\n".join(f"{name}: {text}" for name, text in words.items()),
        "tags": "\n".join(f"<{name}>met</{name}>" for name in words),
        "names": ", ".join(f'"{name}"' for name in words),
    }

    def read(answer: JsonMapping) -> Assessment:
        met, partly = (
            tuple(name for name in words if answer[name] == level) for level in ("met", "partly")
        )
        judged = verdict(len(met), len(words), answer["severe"] == "yes", len(partly))
        return Assessment(judged, met, partly, answer["reason"])

    return Question("simulated_verifier", fields, form, read, sections=sections, judges=True)


def verdict(met: int, of: int, severe: bool, partly: int = 0) -> Literal[-1, 0, 1]:
    """1 where all criteria are met, 0 where most are met or `partly` so, −1 where no more than half
    are, or after a severe error (§2.2.3). It follows from the answers on each criterion, so that it
    cannot contradict them."""
    if severe or 2 * (met + partly) <= of:
        return -1
    return 1 if met == of else 0


def without_asking(need: NeedOutcome) -> Outcome | None:
    """The verdict on a conversation that needs no verifier: without any call of a tool, or with
    text that cannot be read as calls, it is −1 (§3.4); None for any other."""
    steps = [step for turn in need.turns for step in turn.steps]
    if any(step.error is not None for step in steps):
        return Outcome(0, RUBRIC_LEVELS, ("a reply could not be read",))
    return (
        None
        if any(step.calls for step in steps)
        else Outcome(0, RUBRIC_LEVELS, ("no tool was called",))
    )


def _briefed(
    role: Role,
    task: Errand,
    tools: Sequence[Tool],
    past: Past,
    information: Collection[Information],
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The fields that roles share, and the sections for what this one may read. What it may not is
    left out of the fields, too."""
    sections = tuple(section for section in INFORMATION[role] if section in information)
    # the wish in its details
    facts = (f"{name}: {fact}" for name, fact in task.knows.items())
    knows = {"knows": "\n".join(facts) or "(no more than the first message says)"}
    every = {
        "intent": {"intent": task.intent, **({} if role == "simulated_tool" else knows)},
        "persona": {"manner": task.manner},
        "expected": {"expected": "\n".join(line(call.as_json()) for call in task.calls)},
    }
    documents = "\n".join(line(tool.schema()) for tool in tools)
    fields = {"tools": documents, "conversation": past.conversation()}
    for name in INFORMATION[role]:
        fields |= every[name] if name in sections else dict.fromkeys(every[name], "")
    return fields, sections


def _with_field(template: str, name: str, schema: Schema) -> AnswerForm:
    """The form of a template's answers with what hangs on the task."""
    form = FORMS[template]
    return replace(form, fields={**form.fields, name: schema})


def _unreachable(
    calls: Sequence[Call],
    tools: Sequence[Tool],
    query: Text,
    heard: Text,
    meant: Mapping[str, str],
    levels: Levels,
) -> str:
    """Why nobody can make `calls`, or why `query` is not as ambiguous as it should be; empty where
    all is well. `heard` is what the user says or knows, `meant` what words in it stand for."""
    by_name = {tool.name: tool for tool in tools}
    needed: list[bool] = []  # whether the query says it, of all values that it could say
    early = 1 if levels.turns and not levels.ambiguity else len(calls)  # of these calls
    faults = dict[str, None]()
    for place, call in enumerate(calls):
        for name, value in call.arguments.items():
            parameter = by_name[call.name].by_name[name]
            for leaf in values_in(value):
                if isinstance(leaf, bool) or leaf == parameter.default:
                    continue
                other = [words for words, of in meant.items() if not unheard(Text.of(of), leaf)]
                if other or not unheard(heard, leaf):
                    told = any(map(query.contains_exact, other)) or not unheard(query, leaf)
                    needed += [told] * (place < early)
                elif not any(
                    name not in past.arguments and brings(by_name[past.name], parameter)
                    for past in calls[:place]
                ):
                    what = "is neither said nor known, and no earlier call returns"
                    faults[f"call {place + 1} needs {leaf!r}, which {what} a {name}"] = None
    if faults:
        return f'{"; ".join(faults)}. What is said in other words is to be quoted in "said".'
    count = sum(needed)
    if not levels.ambiguity and count < len(needed):
        return "the first message leaves something out that the calls need, and should be clear"
    most = (len(needed), len(needed) - 1, len(needed) // 2)[levels.ambiguity]
    if needed and count > most:
        return f"the first message says {count} of {len(needed)} values, and should say {most}"
    return ""


def _gone(calls: Sequence[Call], repository: ToolRepository) -> str:
    """Which of `calls` is about a thing that an earlier one removes; empty where none is."""
    removed = set[Any]()
    for place, call in enumerate(calls, 1):
        if (effect := repository.tools[call.name].effect) is not None:
            thing = effect.entity, str(call.arguments.get(effect.key))
            if thing in removed:
                return f"call {place} is about the {effect.entity} that an earlier call removes"
            if effect.does == "removes":
                removed.add(thing)
    return ""


def _calls_of(records: Any, tools: Sequence[Tool], count: int) -> tuple[Call, ...]:
    """Raises Unreadable for calls that these tools cannot have, or not as many."""
    by_name = {tool.name: tool for tool in tools}
    if not isinstance(records, list) or len(records) != count:
        raise Unreadable(f"calls must be a list of {count}")
    try:
        calls = tuple(map(Call.from_json, records))
    except ValueError as error:
        raise Unreadable(f"calls: {error}") from None
    for call in calls:
        if call.name not in by_name:
            raise Unreadable(f"there is no tool {call.name[:80]!r}")
        if fault := Checker(arguments_schema(by_name[call.name])).fault(dict(call.arguments)):
            raise Unreadable(f"the arguments of {call.name}: {fault}")
    return calls


def arguments_schema(tool: Tool) -> JsonObject:
    """The JSON Schema of a call's arguments, with the bounds that are checked but not shown."""
    optional = frozenset(parameter.name for parameter in tool.parameters if not parameter.required)
    return obj({parameter.name: limits(parameter) for parameter in tool.parameters}, optional)
