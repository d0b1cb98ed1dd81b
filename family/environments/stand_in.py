"""The roles of models that write worlds and scenarios (docs/generated.md), played by rule: what it
writes of a topic is a world that is drawn by chance, which hangs on the topic's words alone.
Whatever it has to know again later stands in what it is asked: the topic, the state, and the number
of the ticket that it puts into its tasks."""

import json
import re
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path

from rods.analysis.sampling import Sampler
from rods.calls import Call
from rods.canonical import JsonObject, content_id
from rods.daemon.stand_ins.roles import Answer, Asked, Role
from rods.environments.base import Environment, Tool
from rods.family.environments.checking.scenarios import Scenario
from rods.family.environments.procedural import operations, skeletons
from rods.family.environments.procedural.scenarios import draw_scenario
from rods.family.environments.programs import placed
from rods.functions import made_by
from rods.worlds.pinned import tool_of

MOST_TOOLS = 24  # of its worlds
TICKETS = 200  # states of a world that it knows again
WITHOUT_STATE = re.compile(
    r"\b(translate|calculate|summari[sz]e|rhyme|poem|capital of|how much is)\b", re.IGNORECASE
)
TICKET = re.compile(r"\(ticket (\d+)\)")
LINE = re.compile(r"^(\{.*?\}) → ", re.MULTILINE)


def topic_filter(asked: Asked) -> Answer:
    return {"stateful": "no" if WITHOUT_STATE.search(asked.fields["task"]) else "yes"}


def topic_inference(asked: Asked) -> Answer:
    """One of a few domains, by the words of the task."""
    skeleton = _skeleton(asked.fields["task"])
    plurals = skeletons.listed([skeletons.words(kind.plural) for kind in skeleton.kinds], "and")
    links = skeletons.words(skeleton.link.plural)
    return {"description": f"The records of {skeleton.about}: {plurals}, and {links} of these."}


def world_plan(asked: Asked) -> Answer:
    skeleton = _skeleton(asked.fields["topic"])
    labels = {kind.plural: skeletons.words(kind.label) for kind in skeleton.kinds}
    labels[skeleton.link.plural] = "both ends, stage"
    tools = [
        {
            "name": operation.name,
            "group": skeletons.class_name(skeletons.plural(operation.noun)),
            "reads": operation.reads,
            "about": operation.about,
            "takes": [{"name": slot.name, "about": f"a {slot.takes}"} for slot in operation.slots],
        }
        for operation in _tools(skeleton)
    ]
    rules = [
        f"{sentence.rstrip('.')}."
        for sentence in operations.documentation(skeleton).split(". ")[1:]
    ]
    tables = [
        {"name": name, "about": f"{about} and what else is known of each"}
        for name, about in labels.items()
    ]
    return {"tables": tables, "rules": rules, "tools": tools}


def world_state(asked: Asked) -> Answer:
    skeleton = _skeleton(asked.fields["topic"])
    return {"code": "".join((operations.state(skeleton), *operations.helpers(skeleton)))}


def world_tool(asked: Asked) -> Answer:
    return {"code": planned(asked).method()}


def planned(asked: Asked) -> operations.Operation:
    """The operation that a tool is asked for."""
    name = asked.fields["tool"].partition("(")[0]
    tools = _tools(_skeleton(asked.fields["topic"]))
    return next(tool for tool in tools if tool.name == name)


def world_tester(asked: Asked) -> Answer:
    """Any call; one that is to be refused knows nothing of the state."""
    sampler = Sampler(asked.chance)
    if "refused" not in asked.fields["wanted"]:
        sampler.learn("", asked.state)
    call = sampler.call(
        asked.chance.choice(
            [_tool(json.loads(line)) for line in asked.fields["tools"].splitlines()]
        )
    )
    return {"tool": call.name, "arguments": dict(call.arguments)}


def world_checker(asked: Asked) -> Answer:
    """Wrong is a refusal that has changed something."""
    refused = asked.fields["result"].startswith("refused")
    changed = asked.fields["changes"] != "(nothing)"
    return {"verdict": "wrong" if refused and changed else "right"}


def scenario_state(asked: Asked) -> Answer:
    number = int(asked.fields["number"])
    return {"state": skeletons.draw_state(_skeleton(_topic(asked)), number % TICKETS, 0)}


def scenario_task(asked: Asked) -> Answer:
    ticket = _ticket(asked)
    scenario = _scenario(_topic(asked), ticket)
    further = {
        f"request {number}": text for number, text in enumerate(scenario.requests[1:], start=2)
    }
    return {
        "task": f"{' '.join(scenario.requests)} (ticket {ticket})",
        "query": f"{scenario.brief} (ticket {ticket})",
        "manner": "Says one thing at a time.",
        "knows": [
            {"topic": topic, "words": text} for topic, text in {**scenario.knows, **further}.items()
        ],
    }


def scenario_checklist(asked: Asked) -> Answer:
    scenario = _named_scenario(asked)
    return {
        "conditions": list(map(_condition, scenario.checks)),
        "kept": list(map(_condition, scenario.guards)),
    }


def scenario_check(asked: Asked) -> Answer:
    topic = _topic(asked)
    scenario = _named_scenario(asked)
    wanted = (*scenario.checks, *scenario.guards)
    check = next(call for call in wanted if _condition(call) == asked.fields["condition"])
    operation = next(
        candidate
        for candidate in operations.operations(_skeleton(topic))
        if candidate.name == check.name
    )
    assignments = [f"{name} = {value!r}" for name, value in check.arguments.items()]
    body = "\n".join(f"    {line}" for line in ("db = world", *assignments, *operation.body))
    return {"code": f"def check(world: World) -> bool:\n{body}\n"}


def scenario_solver(asked: Asked) -> Answer:
    """The next call of the way that it knows, after one that nobody needs."""
    topic = _topic(asked)
    scenario = _named_scenario(asked)
    calls = [json.loads(line) for line in LINE.findall(asked.fields["calls"])]
    needless = next(operation for operation in _tools(_skeleton(topic)) if operation.role == "list")
    way = [Call(needless.name, {}), *(step.call for step in scenario.witness)]
    if len(calls) >= len(way):
        return {"next": "finish", "arguments": {}}
    return {"next": way[len(calls)].name, "arguments": dict(way[len(calls)].arguments)}


@cache
def _skeleton(topic: str) -> skeletons.Skeleton:
    seed = int(content_id(topic)[:8], 16)
    drawn = (skeletons.draw_skeleton(seed, number) for number in count())
    return next(skeleton for skeleton in drawn if len(list(_tools(skeleton))) <= MOST_TOOLS)


def _tools(skeleton: skeletons.Skeleton) -> Iterator[operations.Operation]:
    return (operation for operation in operations.operations(skeleton) if operation.role != "check")


@cache
def _environment(topic: str) -> Environment:
    """The world of a topic, in this process: its code is this project's own."""
    with tempfile.TemporaryDirectory() as folder:
        place = placed(operations.assembled(_skeleton(topic)), Path(folder))
        world: Environment = made_by(place, Environment, where="the stub's world")
        return world


@cache
def _scenario(topic: str, ticket: int) -> Scenario:
    """Raises LookupError where the world takes none of what was drawn."""
    scenario = draw_scenario(_skeleton(topic), _environment(topic), ticket, 0)
    if scenario is None:
        raise LookupError(f"no scenario {ticket} of {topic}")
    return scenario


def _named_scenario(asked: Asked) -> Scenario:
    """The scenario whose ticket a task names."""
    return _scenario(_topic(asked), int(TICKET.findall(asked.fields["task"])[-1]))


def _topic(asked: Asked) -> str:
    return asked.fields["documentation"].partition("\n- ")[0]


def _ticket(asked: Asked) -> int:
    """The number of the state in which a task begins."""
    skeleton = _skeleton(_topic(asked))
    state = json.loads(asked.fields["state"])
    return next(
        number for number in range(TICKETS) if skeletons.draw_state(skeleton, number, 0) == state
    )


def _condition(check: Call) -> str:
    values = ", ".join(
        f"{skeletons.words(name)} {value}" for name, value in check.arguments.items()
    )
    return f"The check {skeletons.words(check.name)} holds for {values or 'all'}."


def _tool(document: JsonObject) -> Tool:
    return tool_of({**document, "inputSchema": document["parameters"]}, "any")


ROLES: dict[str, Role] = {
    role.__name__: role
    for role in (
        topic_filter,
        topic_inference,
        world_plan,
        world_state,
        world_tool,
        world_tester,
        world_checker,
        scenario_state,
        scenario_task,
        scenario_checklist,
        scenario_check,
        scenario_solver,
    )
}
