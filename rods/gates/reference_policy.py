"""A policy that knows which calls are expected, and makes them.

It makes each call as soon as all of its values were said or shown. While the user has texts to
spare it asks for what the user knows and no request of its says; otherwise it tells the user what
the calls gave. A call whose values are never said it makes all the same: whether they can be known
is another gate's business."""

import re
from collections.abc import Sequence

from rods.analysis.containment import Text, values_in
from rods.calls import Call
from rods.conversations import Persona
from rods.episode.drivers import Job
from rods.episode.engine import NeedText, Reply
from rods.episode.users import procedural_user
from rods.tasks import OpenTask

REPORTED = 300  # characters of its results that the user is told of a call
_MARKS = re.compile(r"(?:\s*<[^<>]*>)+|[?<>\s]+")  # a question mark would ask the user something


class ReferencePolicy:
    """The policy of one conversation. Without `asks` it asks the user nothing."""

    def __init__(self, job: Job, calls: Sequence[Call], *, asks: bool = True) -> None:
        task = job.task
        assert isinstance(task, OpenTask) and isinstance(task.user, Persona)
        self.dialect = job.dialect
        self.user = task.user
        self.left = list(calls)
        # a model that plays the user knows what it wants further from its intent alone, and has to
        # be asked
        self.further = task.user.further if job.user is procedural_user else ()
        later = Text.of(" | ".join(self.further))
        knows = task.user.knows
        # never said unasked
        self.hidden = [topic for topic in knows if not later.contains_any_form(knows[topic])]
        self.asked = set[str]() if asks else set(self.hidden)  # topics
        self.questions = 0
        self.called = False  # whether the last reply was a call
        self.report: list[str] = []  # results that the user was not told of

    def reply(self, need: NeedText) -> Reply:
        if self.called:
            self.report += [
                _MARKS.sub(" ", result.content).strip()[:REPORTED]
                for result in need.messages[need.fresh :]
            ]
        heard = Text.of(
            "\n".join(
                message.content
                for message in need.messages
                if message.role not in ("system", "assistant")
            )
        )
        texts = self.user.turns - need.turn - 1  # that the user may still say
        requests = len(self.further) - (need.turn - self.questions)  # that it has not made
        known_topics = {
            topic for topic in self.hidden if heard.contains_any_form(self.user.knows[topic])
        }
        topics = [topic for topic in self.hidden if topic not in self.asked | known_topics]
        ready = bool(self.left) and all(map(heard.covers, values_in(self.left[0].arguments)))
        asks = bool(topics) and texts > requests
        waits = requests > 0 and texts > 0  # for what the user says next
        self.called = bool(self.left) and (ready or not (asks or waits))
        if self.called:
            return Reply(self.dialect.write([self.left.pop(0)]))
        if self.left and asks:
            self.questions += 1
            self.asked.update(topics)
            return Reply(self.dialect.answer(f"Could you tell me about {'; '.join(topics)}?"))
        message = " ".join(["That is done.", *self.report])
        self.report = []
        return Reply(self.dialect.answer(message))
