"""The card of a score: all that it depends on besides the policy and chance, in hashes, so that two
scores are seen to be of one kind or not. A score moves by several points with the prompt, with what
is shown of earlier turns, and with the random seed (docs/evaluation.md has figures), so none is
printed without these."""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, content_id, present
from rods.dialects.native import template_in
from rods.environments.base import Result
from rods.episode.drivers import Job
from rods.episode.engine import NeedText, NeedUser
from rods.evaluation.scoring import too_few
from rods.tasks import AnyTask

History = Literal["tokens", "messages", "parts", "recorded", "none"]
HISTORY: dict[History, str] = {
    "tokens": "whole, in the tokens that were drawn: nothing earlier is rendered again",
    "messages": "whole, as messages that the server renders anew with its own template",
    "parts": "whole, calls and reasoning apart: what the policy reads of them is the server's own",
    "recorded": "unknown: the outputs were recorded elsewhere",
    "none": "none: a simulated policy reads nothing",
}
INTERVAL = "95 % over tasks: Wilson's, of as many verdicts as scatter alike"
Card = JsonObject


def card(
    tasks: Sequence[AnyTask],
    split: str,
    prompts: Sequence[Any],
    *,
    history: History,
    template: str | None,
    random_seeds: Mapping[str, int],
    sampling: JsonMapping,
    user: JsonMapping | None = None,
    encoder: JsonMapping | None = None,
) -> Card:
    """The card of a score on `tasks`, which `split` names; `prompts`: what is `shown` in each, if
    anything is. `template` is a hash of the chat template, None where it is not known; `sampling`
    says how replies are drawn, and how many; `user`: the model that plays the user, if one does;
    `encoder`: the one that embeds texts."""
    return {
        "data": sorted({version(task) for task in tasks}),
        "split": {
            "name": split,
            "tasks": len(tasks),
            "hash": content_id(sorted(task.id for task in tasks)),
        },
        "prompts": content_id(prompts) if prompts else None,
        "template": template,
        "history": history,
        "random_seeds": dict(random_seeds),
        "sampling": dict(sampling),
        "interval": INTERVAL,
        **present(user=user and dict(user), encoder=encoder and dict(encoder)),
    }


def shown(job: Job) -> list[Any]:
    """What the policy reads before its first reply, what answers a malformed one, and how a result
    is shown."""
    episode = job.engine()
    asked = next(episode)
    if isinstance(asked, NeedUser):  # who speaks first, whatever it says
        asked = episode.send("…")
    assert isinstance(asked, NeedText)
    result = job.dialect.observation([Call("tool", {"value": 1})], [Result("result")])
    messages = [[*message.as_json().values()] for message in asked.messages]
    results = [[*message.as_json().values()] for message in result]
    return [messages, list(job.dialect.complaint("error")), *results]


def version(task: AnyTask) -> str:
    """Environment and hash, and the data's own version where its provenance has one (a benchmark's
    package)."""
    name = f"{task.environment.name} {task.environment.hash}"
    return f"{name} ({task.provenance['version']})" if "version" in task.provenance else name


def template_of(folder: Path) -> str | None:
    """A hash of the chat template that transformers would load from `folder`; None where there is
    none."""
    template = template_in(folder)
    return template_hash(template) if template else None


def template_hash(template: str) -> str:
    return sha256(template.encode()).hexdigest()[:20]


def lines(card: Card | None, tasks: int) -> Iterator[str]:
    """The card in a few lines; `tasks` are those that the intervals are over."""
    if card is None:
        yield "card: none is on record"
        return
    split = card["split"]
    yield f"card: data {'; '.join(card['data'])}"
    yield f"  split {split['name']}, {split['tasks']} tasks, {split['hash']}"
    yield f"  prompts {card['prompts'] or 'none'}, chat template {card['template'] or 'not known'}"
    yield f"  history {HISTORY[card['history']]}"
    settings = ", ".join(
        f"{name} {value}" for name, value in {**card["random_seeds"], **card["sampling"]}.items()
    )
    yield f"  random seeds and sampling: {settings}"
    if user := card.get("user"):
        yield f"  the user is played by {user['model']}"
    if encoder := card.get("encoder"):
        yield f"  texts are embedded by {encoder['model']}"
    if lost := card.get("lost"):
        yield f"  left out of the rollouts: {lost}"
    few = f" ({few})" if (few := too_few(tasks)) else ""
    yield f"  interval {card['interval']}, {tasks} of them{few}"


def different(first: Card | None, other: Card | None) -> list[str]:
    """The fields in which two cards differ, by name; both must be known."""
    return (
        []
        if first is None or other is None
        else [name for name in {**first, **other} if first.get(name) != other.get(name)]
    )
