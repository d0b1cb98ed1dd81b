"""What models have answered: each answer is on the disk before anybody uses it, so that a later
start asks nothing that an earlier one was answered."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from rods.asking import answer_of
from rods.buffers.log.record_bytes import Record
from rods.buffers.log.tail import read
from rods.buffers.log.writer import GroupCommit, LogWriter
from rods.buffers.run.locks import Ownership
from rods.canonical import content_id
from rods.llm import Client, Completion, Request

LOG = "answers.jsonl"


class Tape(Client):
    """A client, with all that `client` has, for one task: it takes the `answers` on record, in
    their order, and asks for those that are not there yet, one after the other. An answer counts
    for the same question alone: where another one is asked in its place, it and what follows it
    are forgotten."""

    def __init__(
        self, client: Client, task: str, answers: list[Record], commit: GroupCommit
    ) -> None:
        vars(self).update(vars(client))
        self._task = task
        self._answers = answers
        self._commit = commit
        self._at = 0

    def constrains(self, backbone: str) -> bool:
        """As it was when the next question was first asked."""
        for answered in self._answers[self._at :]:
            return bool(answered["schema"])
        return super().constrains(backbone)

    async def complete(self, request: Request) -> Completion:
        at = self._at
        key = content_id([request.backbone, request.template, list(request.messages)])
        if key not in [answered["key"] for answered in self._answers[at : at + 1]]:
            answer = await super().complete(request)
            whole = replace(answer, text=answer_of(answer), tool_calls=(), reasoning={})
            answered = {
                "kind": "answered",
                "task": self._task,
                "at": at,
                "key": key,
                "schema": request.schema is not None,
                "completion": asdict(whole),
            }
            await self._commit.append(answered)
            self._answers[at:] = [answered]
        self._at += 1
        return Completion(**self._answers[at]["completion"])


@contextmanager
def journal(folder: Path) -> Iterator[Callable[[Client, str], Tape]]:
    """Gives the tape of a task by its id. One process writes in `folder` at a time. Raises
    RefusedError where another one does, CorruptLogError."""
    folder.mkdir(parents=True, exist_ok=True)
    with Ownership(folder, LOG, "reword"), closing(LogWriter(folder / LOG)) as writer:
        answers: dict[str, list[Record]] = defaultdict(list)
        for answered in read(folder / LOG):
            answers[answered["task"]][answered["at"] :] = [answered]
        commit = GroupCommit(lambda: writer)
        with closing(commit):
            yield lambda client, task: Tape(client, task, answers[task], commit)
