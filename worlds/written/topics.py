"""Topics of worlds from texts of tasks (003 §3.1): which of them belong to a domain with a state, which domain that is,
and which domains are the same.

Topics are the same where the cosine of their embeddings is high, if an endpoint offers embeddings, and otherwise where
our index of similar tasks finds them (rods/gates/similarity.py).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

from rods.answers import AnswerForm, Unreadable
from rods.asking import Unanswered
from rods.conversations import Rubric, Script
from rods.gates.similarity import SimilarityIndex
from rods.llm import Client, Request, RequestRefused
from rods.tasks import EnvironmentRef, OpenTask
from worlds.written.asking import Authors, together

FILTER = AnswerForm({"stateful": {"type": "string", "enum": ["yes", "no"]}})
INFERENCE = AnswerForm({"description": {"type": "string", "minLength": 1, "maxLength": 1_000}})
SHOWN = 4_000  # characters of a task
Embedding = Sequence[float]


async def infer_topics(authors: Authors, texts: Sequence[str]) -> list[str]:
    """The descriptions of the domains of those texts that have one, in their order; equal ones are not joined yet."""

    async def infer(number: int, text: str) -> str | None:
        about, fields = f"text {number}", {"task": text[:SHOWN]}
        try:
            stateful = await authors.put("topic_filter", about, fields, FILTER, lambda said: said["stateful"] == "yes")
            if stateful:
                return await authors.put("topic_inference", about, fields, INFERENCE, _description)
            why = "not_stateful"
        except Unanswered as unanswered:
            why = f"unanswered: {unanswered.why}"
        authors.record.append("dropped", what="text", reasons=[why], text=text[:200])
        return None

    found = await together([infer(number, text) for number, text in enumerate(texts)])
    return [topic for topic in found if topic is not None]


async def embed(client: Client, texts: Sequence[str]) -> list[Embedding] | None:
    """An embedding of each text, from the first endpoint that offers them; None where none does. Raises EndpointError,
    BudgetSpent."""
    for backbone in client.backbones:
        try:
            answer = await client.complete(Request("topics", texts=list(texts), backbone=backbone))
        except RequestRefused:
            continue
        return list(answer.embeddings)
    return None


def distinct(topics: Sequence[str], embeddings: Sequence[Embedding] | None, alike: float) -> list[tuple[str, str]]:
    """Each topic with the earlier one that it repeats, "" where it repeats none."""
    kept: list[int] = []
    index, by_id = SimilarityIndex(), dict[str, str]()
    found = []
    for number, topic in enumerate(topics):
        same = ""
        if embeddings is not None:
            same = next((topics[at] for at in kept if _cosine(embeddings[at], embeddings[number]) >= alike), "")
        else:
            task = _as_task(topic)
            if task.id in by_id:
                same = topic
            elif (match := index.find(task)) is not None:
                same = by_id[match.other]
            else:
                index.add(task)
                by_id[task.id] = topic
        if not same:
            kept.append(number)
        found.append((topic, same))
    return found


def _description(said: dict[str, str]) -> str:
    if not (text := " ".join(said["description"].split())):
        raise Unreadable("description is blank")
    return text


def _cosine(one: Embedding, other: Embedding) -> float:
    lengths = math.hypot(*one) * math.hypot(*other)
    return math.fsum(map(operator.mul, one, other)) / lengths if lengths and len(one) == len(other) else 0.0


def _as_task(topic: str) -> OpenTask:
    """A topic as what the index compares: the text of a user, with a goal that no other topic has."""
    return OpenTask(EnvironmentRef("topic", ""), "base", Script((topic,)), Rubric((topic,)), ())
