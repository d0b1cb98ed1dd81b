"""episodes.jsonl: what an evaluation has done so far, one record an episode, durable before the next one counts.

Only what the policy itself brought to an end is recorded; an episode that the machinery broke, or a budget stopped, is
run again by the next start. Outputs stand as JSON text inside the record, since a policy's text may hold what a line of
the log may not (lone surrogates, numbers of any size).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buffers.log.records import record
from buffers.log.tail import read
from buffers.log.writer import LogWriter
from evaluation.bfcl.decoding import Form

NAME = "episodes.jsonl"


@dataclass(frozen=True, slots=True)
class Episode:
    """One finished episode. `task` is BFCL's id, `result` what its result files hold, `end` how it ended; `cut` counts
    outputs that were cut at the token limit and yet taken as they were."""

    task: str
    sample: int
    form: Form
    result: Any
    end: str = "finished"
    cut: int = 0

    @property
    def key(self) -> tuple[str, int]:
        return self.task, self.sample


class Journal:
    """The one writer of an evaluation's episodes. Knows which are `done`."""

    def __init__(self, folder: Path) -> None:
        self._writer = LogWriter(folder / NAME)  # which moves aside a line that a kill has cut short
        self.done = {episode.key for episode in episodes(folder)}

    def add(self, episode: Episode) -> None:
        """Records an episode; on the disk when this returns. One that is done already is left as it is."""
        if episode.key in self.done:
            return
        fields = {
            "task": episode.task,
            "sample": episode.sample,
            "form": episode.form,
            "end": episode.end,
            "cut": episode.cut,
            "result": json.dumps(episode.result),
        }
        self._writer.append([record("episode", **fields)])
        self.done.add(episode.key)

    def close(self) -> None:
        self._writer.close()


def episodes(folder: Path) -> Iterator[Episode]:
    """The episodes on record, in the order in which they ended."""
    if (folder / NAME).exists():
        for found in read(folder / NAME):
            result = json.loads(found["result"])
            yield Episode(found["task"], found["sample"], found["form"], result, found["end"], found["cut"])
