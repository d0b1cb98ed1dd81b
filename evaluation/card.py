"""The card of a score: all that it depends on besides the policy and chance, in hashes, so that two scores are seen to
be of one kind or not. A score moves by several points with the prompt, with what is shown of earlier turns, and with
the random seed (docs/evaluation.md has figures), so none is printed without these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import orjson

from rods.calls import Call
from rods.canonical import content_id
from rods.environments.base import Result
from rods.episode.drivers import Job
from rods.episode.engine import NeedText
from rods.evaluation.protocol import NativeCalls
from rods.evaluation.scoring import too_few
from rods.tasks import AnyTask

History = Literal["tokens", "messages", "recorded", "none"]
HISTORY: dict[History, str] = {
    "tokens": "whole, in the tokens that were drawn: nothing earlier is rendered again",
    "messages": "whole, as messages that the server renders anew with its own template",
    "recorded": "unknown: the outputs were recorded elsewhere",
    "none": "none: a simulated policy reads nothing",
}
INTERVAL = "95 % over tasks: Wilson's, of as many verdicts as scatter alike"
Card = dict[str, Any]


def card(
    tasks: Sequence[AnyTask],
    split: str,
    jobs: Iterable[Job],
    *,
    history: History,
    template: str | None,
    random_seeds: Mapping[str, int],
    sampling: Mapping[str, Any],
) -> Card:
    """The card of a score on `tasks`, which `split` names, played as `jobs` (none: without prompts). `template` is a
    hash of the chat template, None where it is not known; `sampling` says how replies are drawn, and how many."""
    shown = [_shown(job) for job in jobs]
    return {
        "data": sorted({version(task) for task in tasks}),
        "split": {"name": split, "tasks": len(tasks), "hash": content_id(sorted(task.id for task in tasks))},
        "prompts": content_id(shown) if shown else None,
        "template": template,
        "history": history,
        "random_seeds": dict(random_seeds),
        "sampling": dict(sampling),
        "interval": INTERVAL,
    }


def version(task: AnyTask) -> str:
    """Environment and hash, and the data's own version where its provenance has one (a benchmark's package)."""
    name = f"{task.environment.name} {task.environment.hash}"
    return f"{name} ({task.provenance['version']})" if "version" in task.provenance else name


def template_of(folder: Path) -> str | None:
    """A hash of the chat template that transformers would load from `folder`; None where there is none."""
    for name, read in (("chat_template.jinja", bytes), ("tokenizer_config.json", _template_in)):
        if (folder / name).exists() and (found := read((folder / name).read_bytes())):
            return sha256(found).hexdigest()[:20]
    return None


def lines(found: Card | None, tasks: int) -> Iterator[str]:
    """The card in a few lines; `tasks` are those that the intervals are over."""
    if found is None:
        yield "card: none, this was scored before there were cards"
        return
    split, seeds = found["split"], found["random_seeds"]
    yield f"card: data {'; '.join(found['data'])}"
    yield f"  split {split['name']}, {split['tasks']} tasks, {split['hash']}"
    yield f"  prompts {found['prompts'] or 'none'}, chat template {found['template'] or 'not known'}"
    yield f"  history {HISTORY[found['history']]}"
    told = ", ".join(f"{name} {value}" for name, value in {**seeds, **found["sampling"]}.items())
    yield f"  random seeds and sampling: {told}"
    few = too_few(tasks)
    yield f"  interval {found['interval']}, {tasks} of them" + (f" ({few})" if few else "")


def different(one: Card | None, other: Card | None) -> list[str]:
    """The fields in which two cards differ, by name; both must be known."""
    if one is None or other is None:
        return []
    return [name for name in one if one[name] != other.get(name)]


def _shown(job: Job) -> list[Any]:
    """What the policy reads before its first reply, what answers a malformed one, and how a result is shown."""
    asked = next(job.engine())
    assert isinstance(asked, NeedText)
    dialect = job.dialect
    result = dialect.observation([Call("tool", {"value": 1})], [Result("result")])
    shown = [[[one.role, one.content] for one in asked.messages], list(dialect.complaint("error")), list(result)]
    if isinstance(dialect, NativeCalls):
        held_out = [name for _, names in sorted(job.task.held_out.items()) for name in names]
        shown.append(dialect.tools(job.task.tools_at(0), held_out))
    return shown


def _template_in(config: bytes) -> bytes:
    found = orjson.loads(config).get("chat_template")
    return found.encode() if isinstance(found, str) else orjson.dumps(found) if found else b""
