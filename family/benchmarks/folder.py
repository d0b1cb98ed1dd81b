"""The folder of an evaluation: its settings (evaluation.json) and the episodes done so far
(episodes.jsonl).

Settings are tasks, protocol, policy and sampling; a folder refuses others. Addresses, keys,
concurrency and budgets may change at every start. episodes.jsonl has the card of the scores
(rods.evaluation.card) whenever it becomes another, one record an episode that the policy itself
ended, and one for each that ended with a completion that is none (`rods.faults.NO_ANSWER`), durable
before the next one counts. Outputs are kept as JSON text inside the record, since a
policy's text may hold what a line of the log may not (lone surrogates, numbers of any size).
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import orjson

from rods.buffers.log.disk import replace
from rods.buffers.log.record_bytes import record
from rods.buffers.log.tail import read
from rods.buffers.log.writer import LogWriter
from rods.canonical import JsonMapping, JsonObject, frozen, keyed_random, only
from rods.errors import RefusedError, UserError
from rods.evaluation.card import Card
from rods.faults import NO_ANSWER
from rods.files import read_regular
from rods.tasks import HELD_OUT_SPLITS, SPLITS, TASK_TYPES, AnyTask, Split

SETTINGS = "evaluation.json"
EPISODES = "episodes.jsonl"
T = TypeVar("T", bound=AnyTask)
Protocol = Literal["official", "native", "tags", "hermes", "compact"]
SystemPrompt = Literal["plain", "resourceful"]
# calls written as text, or made through the server's function calling
Form = Literal["prompt", "native"]
# tool documents as the benchmark shows them, or one line a tool
Documents = Literal["full", "signatures"]
Part = Literal["held-out", "test", "validation", "train", "all"]
COLDEST = 0.001  # the harness's own temperature
# of the episodes: with more of them lost, scores are of what is left
LOST_SHARE = 0.02
PARTS: dict[Part, tuple[Split, ...]] = {
    "held-out": HELD_OUT_SPLITS,  # the 400 of the papers
    "test": ("test",),  # the 300 of them that no transition between curriculum stages has seen
    "validation": ("validation",),
    "train": ("train",),
    "all": SPLITS,
}


@frozen
class Settings:
    """`policy` says what is evaluated; `types` are the benchmark's kinds of items; `tasks_per_type`
    0 takes all; `samples` are episodes a task."""

    policy: JsonObject
    part: Part = "held-out"
    types: tuple[str, ...] = TASK_TYPES
    tasks_per_type: int = 0
    samples: int = 1
    protocol: Protocol = "official"
    system_prompt: SystemPrompt = "plain"  # of the tags dialect
    form: Form = "prompt"
    documents: Documents = "full"
    temperature: float = COLDEST
    top_p: float = 1.0
    max_tokens: int = 4096  # of one output
    user: JsonObject | None = None  # who plays the user, where a model does
    encoder: JsonObject | None = None  # what embeds texts, where something does
    search: JsonObject | None = None  # where the web is searched

    @property
    def greedy(self) -> bool:
        """Whether the temperature is at most the harness's own, so that the likeliest token is
        taken."""
        return self.temperature <= COLDEST

    @property
    def served(self) -> bool:
        """Whether a server writes tools and reads calls."""
        endpoint = self.policy.get("kind") == "endpoint"
        return self.form == "native" or (self.protocol == "native" and endpoint)

    @property
    def results_form(self) -> Form:
        """The form in which outputs are recorded; the calls of a training dialect are kept as
        native ones."""
        return self.form if self.protocol == "official" else "native"

    def choose(self, tasks: Sequence[T], kind_of: Callable[[T], str]) -> list[T]:
        """The tasks of the evaluation, in their types' order; fewer of a type by a draw that never
        changes."""
        chosen: list[T] = []
        for kind in self.types:
            fitting = [
                task for task in tasks if kind_of(task) == kind and task.split in PARTS[self.part]
            ]
            if 0 < self.tasks_per_type < len(fitting):
                order = keyed_random(0, "evaluation", kind).sample(
                    range(len(fitting)), len(fitting)
                )
                fitting = [fitting[index] for index in sorted(order[: self.tasks_per_type])]
            chosen += fitting
        return chosen


def open_folder(folder: Path, settings: Settings, benchmark: JsonMapping) -> None:
    """Makes `folder` for `settings` and `benchmark`, or finds it made for the same. Raises
    RefusedError with what differs, UserError for a folder that is something else."""
    ours = {"format": 1, **benchmark, **orjson.loads(orjson.dumps(settings))}
    if not (folder / SETTINGS).exists():
        if folder.exists() and any(folder.iterdir()):
            raise UserError(
                "is no evaluation, and not empty", where=folder, remedy="name a new folder"
            )
        folder.mkdir(parents=True, exist_ok=True)
        replace(folder / SETTINGS, orjson.dumps(ours, option=orjson.OPT_INDENT_2) + b"\n")
        return
    theirs, _ = recorded_settings(folder)
    different = [
        key for key in sorted(ours.keys() | theirs.keys()) if ours.get(key) != theirs.get(key)
    ]
    if different:
        differences = "; ".join(
            f"{key} is {theirs.get(key)!r} there, {ours.get(key)!r} now" for key in different
        )
        raise RefusedError(
            f"was made with other settings: {differences}",
            where=folder,
            remedy="name a new folder, or the same settings",
        )


def recorded_settings(folder: Path) -> tuple[JsonObject, Settings]:
    """The content of evaluation.json, and the settings in it. Raises UserError for a folder without
    it."""
    try:
        content: JsonObject = orjson.loads(read_regular(folder / SETTINGS))
        fields = only(content, Settings.__dataclass_fields__)
        return content, Settings(**{**fields, "types": tuple(content["types"])})
    except (OSError, KeyError, TypeError, orjson.JSONDecodeError) as error:
        raise UserError(
            "is no evaluation", where=folder, remedy="`rods-eval run` makes one"
        ) from error


@frozen
class Episode:
    """One finished episode. `task` is what the benchmark calls the item, `result` what its result
    files hold (or what `TaskMaker.episode` says); `cut` counts outputs that were cut at the token
    limit and yet taken."""

    task: str
    sample: int
    form: Form
    result: Any
    end: str = "finished"
    cut: int = 0

    @property
    def key(self) -> tuple[str, int]:
        return self.task, self.sample


@frozen
class Score:
    """What an episode earned, by each of the benchmark's measures, 0 to 1, on an item of this
    `kind`."""

    kind: str
    measures: Mapping[str, float]
    split: Split = "test"


PLAIN_FIELDS = ("task", "sample", "form", "end", "cut")  # of a record; `result` is JSON text there


class Journal:
    """The one writer of an evaluation's episodes. Knows which are `done`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # which moves aside a line that a kill has cut short
        self._writer = LogWriter(folder / EPISODES)
        self.done = {episode.key for episode in episodes(folder)}

    def add(self, episode: Episode) -> None:
        """Records an episode; on the disk when this returns. One that is done already is left as it
        is; one that ended with a completion that is none is not done."""
        if episode.key in self.done:
            return
        kind = "no_answer" if episode.end in NO_ANSWER else "episode"
        fields = {name: getattr(episode, name) for name in PLAIN_FIELDS}
        self._writer.append([record(kind, **fields, result=json.dumps(episode.result))])
        if kind == "episode":
            self.done.add(episode.key)

    def describe(self, card: Card) -> None:
        """Records the card of the episodes that follow, unless it is on record."""
        if card not in cards(self.folder)[-1:]:
            self._writer.append([record("card", card=card)])

    def close(self) -> None:
        self._writer.close()


def episodes(folder: Path) -> Iterator[Episode]:
    """The episodes on record, in the order in which they ended."""
    for line in read(folder / EPISODES):
        if line["kind"] == "episode":
            yield Episode(
                **{name: line[name] for name in PLAIN_FIELDS}, result=json.loads(line["result"])
            )


def lost(folder: Path) -> Counter[str]:
    """How many episodes are left out, by the completion that ended them last."""
    ends = {
        (line["task"], line["sample"]): line["end"]
        for line in read(folder / EPISODES)
        if line["kind"] in ("episode", "no_answer")
    }
    return Counter(end for end in ends.values() if end in NO_ANSWER)


def complete(done: int, lost: int, expected: int, share: float = LOST_SHARE) -> bool:
    """Whether `done` episodes and those that are `lost`, at most a `share` of all, are the
    evaluation of `expected`."""
    return done + lost == expected and lost <= share * expected


def described(folder: Path) -> Card | None:
    """The card of the scores, with the shares of the episodes that are `lost`; None in a folder
    from before there were any."""
    *_, card = [None, *cards(folder)]
    gone = lost(folder)
    played = gone.total() + sum(1 for _ in episodes(folder))
    shares = ", ".join(f"{count / played:.1%} {name}" for name, count in sorted(gone.items()))
    return {**card, "lost": shares} if card and shares else card


def cards(folder: Path) -> list[Card]:
    """The cards on record, one for each time that it became another; none in a folder from before
    there were any."""
    return [line["card"] for line in read(folder / EPISODES) if line["kind"] == "card"]
