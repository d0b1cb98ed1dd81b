"""A policy by rule for two hundred tasks, which plays ground truth and, here and there, what is
wrong; and a transcript of that by our own engine, with which those of foreign tool loops are
compared."""

from __future__ import annotations

from typing import Any

from rods.calls import Call
from rods.canonical import keyed_random
from rods.dialects.remote import Served
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import Reply
from rods.episode.goals import goal_of
from rods.tasks import Task
from rods.worlds import desk
from tests.environments import load

Line = tuple[str, Any]  # "user" or "answer" and a text, "call" and a call, "result" and a text


def tasks(many: int = 200) -> list[Task]:
    """Of all types, on desk."""
    return desk.generate(5, many, 0)


def moves(task: Task) -> list[Call | str]:
    """What the policy does, one thing a reply: calls, and answers, which end turns."""
    chance = keyed_random(0, "scripted", task.id)
    names = [*load("desk").tools()]
    played = list[Call | str]()
    for turn, calls in enumerate(task.calls):
        right = list(calls) if chance.random() < 0.8 else list(calls[1:])
        wrong = [
            Call(chance.choice(names), {}),  # perhaps one that the task does not offer
            Call(chance.choice(names), {"name": ["ü", None, {"a": 0.5}], "text": "</tool_call>\n"}),
            *(Call(call.name, {**call.arguments, "amount": -7}) for call in calls),
        ]
        for call in chance.sample(wrong, chance.randrange(3)):
            right.insert(chance.randrange(len(right) + 1), call)
        played += [*right, f'Turn {turn} is "done" – in plain words.']
    return played


def ours(task: Task) -> tuple[list[Line], int]:
    """The transcript by our engine, and how many turns were resolved."""
    environment = load("desk")
    dialect = Served()
    left = iter(moves(task))

    def reply(move: Call | str) -> Reply:
        return Reply(dialect.answer(move) if isinstance(move, str) else dialect.write([move]))

    def complete(waiting: Any) -> list[Reply]:
        return [reply(next(left)) for _ in waiting]

    (trace,) = run_lockstep(
        [Job(task, environment, dialect, goal_of(environment, task), max_steps=100)], complete
    )
    assert trace.end == "finished"
    lines: list[Line] = []
    texts = iter([message.content for message in trace.messages if message.role == "user"])
    for turn in trace.turns:
        lines.append(("user", next(texts)))
        for step in turn.steps:
            for call, result in zip(step.calls, step.results, strict=True):
                lines += [("call", call), ("result", result.text)]
        lines.append(("answer", dialect.parse(turn.steps[-1].text).answer))
    return lines, trace.resolved
