"""Witness conversations of a drawn task: a policy that knows which calls are expected, and makes them.

It makes each call as soon as all of its values were said or shown. While the user has texts to spare it asks for what
the user knows and no request of its says; otherwise it tells the user what the calls gave. A call whose values are
never said it makes all the same: whether they can be known is another gate's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from rods.analysis.containment import Text, key_of, leaves
from rods.analysis.sampling import Sampler
from rods.analysis.schemas import limits
from rods.calls import Call
from rods.canonical import keyed_random
from rods.conversations import Persona
from rods.environments.base import Result, Tool
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedText, Reply, Trace
from rods.episode.users import procedural_user
from rods.episode.watchdog import outside
from rods.errors import InfrastructureError
from rods.tasks import OpenTask

REPORTED = 300  # characters of its results that the user is told of a call
DRAWS = 20  # of another value for an argument, until one differs
_MARKS = re.compile(r"(?:\s*<[^<>]*>)+|[?<>\s]+")  # a question mark would ask the user something


def witness(job: Job, calls: Sequence[Call]) -> Trace:
    """The conversation in which `calls` are made. Raises InfrastructureError where one of its players broke."""
    return witnesses([(job, calls)])[0]


def witnesses(plays: Sequence[tuple[Job, Sequence[Call]]]) -> list[Trace]:
    """The conversations in which these calls are made, all at once where their players wait for somebody else. Raises
    InfrastructureError where one of the players broke."""
    jobs, policies = [job for job, _ in plays], [ReferencePolicy(job, calls) for job, calls in plays]
    with outside() if any(job.waits for job in jobs) else nullcontext():
        traces = run_lockstep(jobs, lambda waiting: [policies[index].reply(need) for index, need in waiting])
    if any(trace.outcome is None for trace in traces):
        what = f"a witness conversation of task {traces[0].task} broke off: its world, user or verifier did not answer"
        raise InfrastructureError(what)
    return traces


def results_of(trace: Trace) -> tuple[Result, ...]:
    """The results of all calls of a conversation, in order."""
    return tuple(result for turn in trace.turns for step in turn.steps for result in step.results)


def misled(task: OpenTask, tools: Mapping[str, Tool]) -> Iterator[tuple[str, tuple[Call, ...]]]:
    """What a conversation might do instead, and how to call that: each time one of the expected calls is left out. A
    conversation without any call is refused by rule, whoever judges; so a single call is made with another value."""
    calls = task.goal_calls
    for index, call in enumerate(calls if len(calls) > 1 else ()):
        yield f"without {call.name}", (*calls[:index], *calls[index + 1 :])
    if len(calls) == 1:
        only, sampler = calls[0], Sampler(keyed_random(0, "misled", task.id))
        parameters = [parameter for parameter in tools[only.name].parameters if parameter.name in only.arguments]
        for parameter in sorted(parameters, key=lambda parameter: not parameter.required):
            name = parameter.name
            for _ in range(DRAWS):
                value = sampler.value(name, limits(parameter))
                if key_of(value) != key_of(only.arguments[name]):
                    yield f"with another {name}", (Call(only.name, {**only.arguments, name: value}),)
                    return


def told(value: Any, heard: Text) -> bool:
    """Whether a leaf of an argument needs no mention, or was mentioned."""
    return value is None or isinstance(value, bool) or value == "" or heard.contains_any_form(value)


class ReferencePolicy:
    """The policy of one conversation. Without `asks` it asks the user nothing."""

    def __init__(self, job: Job, calls: Sequence[Call], *, asks: bool = True) -> None:
        task = job.task
        assert isinstance(task, OpenTask) and isinstance(task.user, Persona)
        self.dialect, self.user, self.left = job.dialect, task.user, list(calls)
        # a model that plays the user knows what it wants further from its intent alone, and has to be asked
        self.further = task.user.further if job.user is procedural_user else ()
        later = Text.of(" | ".join(self.further))
        knows = task.user.knows
        self.hidden = [topic for topic in knows if not later.contains_any_form(knows[topic])]  # never said unasked
        self.asked = set[str]() if asks else set(self.hidden)  # topics
        self.questions = 0
        self.called = False  # whether the last reply was a call
        self.report: list[str] = []  # results that the user was not told of

    def reply(self, need: NeedText) -> Reply:
        if self.called:
            self.report += [_MARKS.sub(" ", given.content).strip()[:REPORTED] for given in need.messages[need.fresh :]]
        heard = Text.of("\n".join(said.content for said in need.messages if said.role not in ("system", "assistant")))
        texts = self.user.turns - need.turn - 1  # that the user may still say
        requests = len(self.further) - (need.turn - self.questions)  # that it has not made
        known_topics = {topic for topic in self.hidden if heard.contains_any_form(self.user.knows[topic])}
        topics = [topic for topic in self.hidden if topic not in self.asked | known_topics]
        known = bool(self.left) and all(told(leaf, heard) for _, leaf in leaves(dict(self.left[0].arguments)))
        asks = bool(topics) and texts > requests
        waits = requests > 0 and texts > 0  # for what the user says next
        self.called = bool(self.left) and (known or not (asks or waits))
        if self.called:
            return Reply(self.dialect.write([self.left.pop(0)]))
        if self.left and asks:
            self.questions += 1
            self.asked.update(topics)
            return Reply(self.dialect.answer(f"Could you tell me about {'; '.join(topics)}?"))
        said, self.report = " ".join(["That is done.", *self.report]), []
        return Reply(self.dialect.answer(said))
