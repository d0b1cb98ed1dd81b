"""The roles of a simulated environment (001 §2.2), played by rule, by what the question says and
nothing else: errands are drawn, a tool's result from its schema, with what was given and shown; the
user answers what it is asked, and the verifier holds the calls that were made against those that
were expected, or else against the wish."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from rods.analysis.containment import Text, leaves, read_json
from rods.analysis.sampling import Sampler
from rods.analysis.schemas import fits
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, only
from rods.conversations import Persona
from rods.daemon.stand_ins.roles import Answer, Asked, Role
from rods.episode.users import procedural_user
from rods.errors import UserError
from rods.family.simulation.difficulty import Levels
from rods.family.simulation.documents import ToolRepository, read_tool
from rods.family.simulation.generating import WANTED, draw_task
from rods.prompts import load

KNOWN_THINGS = 20  # an errand's knowledge at most, as its form wants it
# of a complaint: what a field has to be
STATED = re.compile(r"(\w+)(?: of \w+ \S+)? is (\S.*?), not ")
LEFT = re.compile(r"what happened before leaves one answer: (\{.*\})")
IN_NO_LIST = "that would have shown it"
WISH = "The user wants the assistant to "  # before the parts of a drawn task's intent


def errand(asked: Asked) -> Answer:
    """A task over the tools in question, with as many calls, a user and an ambiguity as it says."""
    fields = asked.fields
    documents = [json.loads(line) for line in fields["tools"].splitlines()]
    count = int(fields["calls"].split()[0])
    levels = Levels(
        tools=len(documents),
        calls=count,
        turns=0,  # the first message speaks of all that is wished for
        system=0,
        persona=_level("persona", fields["persona"]),
        ambiguity=_level("ambiguity", fields["ambiguity"]),
        criteria=0,
    )
    try:
        tools = [read_tool(document, "any", "tools") for document in documents]
        repository = ToolRepository(
            {tool.tool.name: tool for tool in tools}, {"any": fields["area"]}
        )
        drawn = draw_task(repository, levels, asked.chance.getrandbits(32), 0, 0)
    # arguments that nothing here can make up: no whole answer, so that other tools are offered
    except UserError:
        return {"intent": "None."}
    return {
        "intent": drawn.intent,
        "first_query": drawn.first_query,
        "manner": drawn.manner,
        "knows": [{"topic": topic, "words": words} for topic, words in drawn.knows.items()][
            :KNOWN_THINGS
        ],
        "calls": [call.as_json() for call in drawn.calls],
    }


def tool(asked: Asked) -> Answer:
    """What the call gives comes back as it was given, and what was shown before as it was shown."""
    fields = asked.fields
    call = Call.from_json(json.loads(asked.fields["call"]))
    schema = json.loads(fields["result"])
    problem = fields["problem"]
    with suppress(ValueError):
        problem = json.loads(problem)["objections"]
    entries = _lines(fields["known"])
    ids = [value for name, value in call.arguments.items() if name.endswith("id")]
    if left := LEFT.search(problem):
        value = json.loads(left[1])
        return _absent() if "error" in value and "error" not in schema["properties"] else _ok(value)
    lists = [
        name for name, form in schema["properties"].items() if "properties" in form.get("items", {})
    ]
    if any(
        entry.get("there") is False and any(key in ids for key in entry.values())
        for entry in entries
    ):
        return _absent()
    if IN_NO_LIST in problem and not lists:
        return _absent()
    things = [thing for entry in entries for thing in entry.values() if isinstance(thing, dict)]
    sampler = Sampler(asked.chance)
    value = dict[str, Any]()
    corrections = {name: read_json(text) for name, text in STATED.findall(problem)}
    own = next((name for name in schema["properties"] if name.endswith("id")), "")
    new = own not in call.arguments  # what has no id yet is made by this call
    named = [thing for thing in things if not new and any(key in thing.values() for key in ids)]
    for name, form in schema["properties"].items():
        candidates = [corrections, call.arguments, *reversed(named)]
        values = [
            candidate[name]
            for candidate in candidates
            if name in candidate and fits(form, candidate[name])
        ]
        if values:
            value[name] = values[0]
        elif name in lists:
            value[name] = list(
                _items(form["items"], call, things, sampler, only_known="list" in problem)
            )
        else:
            value[name] = sampler.value(name, form)
    return _ok(value)


def user(asked: Asked) -> Answer:
    """As the user that needs no model: it tells what it is asked for. Asked nothing, it makes its
    next request, the next part of its wish, and ends when it has no more."""
    fields = asked.fields
    talk = _said(asked.fields["conversation"])
    knows = dict(line.split(": ", 1) for line in fields["knows"].splitlines() if ": " in line)
    last = [text for speaker, text in talk if speaker == "assistant"][-1:]
    heard = " ".join(text for speaker, text in talk if speaker == "user")
    # names all of them and asks for none
    heard = heard.replace(knows.get(WANTED, "\n"), "").casefold()
    wishes = fields["intent"].removeprefix(WISH).removesuffix(".").split("; ")
    places = [
        place for place, wish in enumerate(wishes) if wish.partition(" (")[0].casefold() in heard
    ]
    further = wishes[max(places, default=0) + 1 :][:1]  # a vague first message speaks of the first
    texts = tuple(f"Good. Now please {wish}." for wish in further)
    return {
        "message": procedural_user(Persona("-", "-", knows, further=texts), [("-", "".join(last))])
    }


def verdict(asked: Asked) -> Answer:
    """Whether all that was expected was done, and nothing besides. A wish that was not fulfilled is
    severe."""
    fields = asked.fields
    lines = _lines(fields["calls"])
    talk = _said(fields["conversation"])
    calls = [Call(record["call"], record["arguments"]) for record in lines]
    texts = [
        *(text for speaker, text in talk if speaker == "user"),
        *(str(record["result"]) for record in lines),
    ]
    heard = Text.of("\n".join([fields["intent"], fields["knows"], *texts]))
    expected = [Call.from_json(json.loads(line)) for line in fields["expected"].splitlines()]
    if expected:
        done = [call in calls for call in expected]
    else:  # it is not told of them, so what was wished for decides, if that is told
        done = [
            all(heard.contains_any_form(value) for value in _values(call)) for call in calls
        ] or [False]
    replies = len(calls) + sum(speaker == "assistant" for speaker, _ in talk)
    met = {
        "intent": all(done),
        "expected_tools": all(done),
        "no_hallucination": all(
            heard.contains_any_form(value) for call in calls for value in _values(call)
        ),
        "no_redundancy": len(calls) <= len(done) and len(set(map(str, calls))) == len(calls),
        "efficiency": len(calls) <= len(done) and replies <= 2 * len(done) + 2,
    }
    names = [line.partition(":")[0] for line in fields["criteria"].splitlines()]
    verdicts = {name: "met" if met.get(name, True) else "missed" for name in names}
    return {**verdicts, "severe": "no" if all(done) else "yes"}


def _items(
    schema: JsonMapping,
    call: Call,
    things: Sequence[JsonMapping],
    sampler: Sampler,
    *,
    only_known: bool,
) -> Iterator[JsonObject]:
    """What stands in a list: things of that form that are known and are what was asked for, and one
    or two more."""
    fields = schema["properties"]
    arguments = {
        name: value
        for name, value in call.arguments.items()
        if name in fields and fits(fields[name], value)
    }
    for thing in things:
        if (
            all(name in thing for name in schema.get("required", fields))
            and arguments.items() <= thing.items()
        ):
            yield only(thing, fields)
    for _ in range(0 if only_known else sampler.rng.randint(1, 2)):
        yield {name: sampler.value(name, form) for name, form in fields.items()} | arguments


def _ok(value: JsonMapping) -> Answer:
    return {"status": "ok", "result": dict(value)}


def _absent() -> Answer:
    return {"status": "not_found", "message": "there is no such thing"}


def _values(call: Call) -> list[Any]:
    return [value for _, value in leaves(dict(call.arguments)) if not isinstance(value, bool)]


def _lines(transcript: str) -> list[JsonObject]:
    """The records of a transcript; that of what is left out, and "(none)", are none."""
    records = [json.loads(line) for line in transcript.splitlines() if line.startswith("{")]
    return [record for record in records if "left_out" not in record]


def _said(conversation: str) -> list[tuple[str, str]]:
    """Who said what."""
    records = _lines(conversation)
    return [
        (who, str(record[who]))
        for record in records
        for who in ("user", "assistant")
        if who in record
    ]


def _level(dimension: str, text: str) -> int:
    """The level of a dimension whose words these are."""
    every = load("simulation_levels").sections
    return next(level for level in range(3) if every[f"{dimension}_{level}"] == text)


ROLES: dict[str, Role] = {
    "simulated_task": errand,
    "simulated_tool": tool,
    "simulated_user": user,
    "simulated_verifier": verdict,
}
