"""`rods-eval run`: runs the episodes that are not recorded yet, and says whether all are."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from buffers.run.locks import Ownership
from buffers.run.runfolder import LOGS
from buffers.usage import UsageLog
from evaluation import card as cards
from evaluation import report, sources
from evaluation.bfcl import results
from evaluation.bfcl.results import ResultEntry
from evaluation.endpoint import EndpointPolicy, refuse_dropped_reasoning, rendered_template
from evaluation.episodes import RANDOM_SEED, EpisodeMaker, Maker, Slot, TaskMaker, play_batches
from evaluation.folder import EPISODES, Episode, Journal, open_folder
from evaluation.sources import Options, Source
from rods import logs
from rods.canonical import content_id
from rods.environments.base import reference
from rods.environments.loading import Environments
from rods.errors import EXIT_FAILED, EXIT_OK, EXIT_REQUEUE, UserError, complain
from rods.llm import Budget, Client
from rods.signals import StopRequest
from rods.tasks import AnyTask, read_tasks, scripted
from worlds.bfcl.tasks import tasks as bfcl_tasks
from worlds.bfcl.world import environment

SAY_SECONDS = 10.0  # between two lines about progress


def run(folder: Path, options: Options) -> int:
    """Runs the evaluation in `folder`, or goes on with it; returns the exit code. Raises UserError, RefusedError."""
    source = sources.find(options)
    settings = sources.settings(source, options)
    bfcl = environment() if options.tasks is None else None
    chosen = settings.choose(bfcl_tasks() if options.tasks is None else list(read_tasks(options.tasks)))
    if not chosen:
        raise UserError("no task fits", where="--split, --types", remedy="ask for less")
    maker: Maker
    if bfcl is not None:
        maker = EpisodeMaker(bfcl, settings)
    else:
        folders = (options.tasks.parent if options.tasks else None, options.run)
        worlds = Environments(source.operation.sandbox, *filter(None, folders))
        settings = replace(settings, tasks=_described(chosen, worlds))
        maker = TaskMaker(worlds, settings)
    open_folder(folder, settings, bfcl)
    logs.configure("rods-eval", "warning", folder=folder / LOGS)
    with StopRequest() as request, Ownership(folder, EPISODES, "rods-eval"):
        session = _Session(folder, maker, chosen, lambda: request.asked)
        try:
            session.run(source, options)
        finally:
            session.journal.close()
        report.write_results(folder)
        return session.code(source)


def _described(tasks: list[AnyTask], environments: Environments) -> dict[str, Any]:
    """What evaluation.json says of `tasks` of a file. Raises UserError for one that was written for another version of
    its environment."""
    for task in tasks:
        installed = environments.load(task.environment.name)
        if reference(installed) != task.environment:
            raise UserError(
                f"was written for version {task.environment.hash} of {task.environment.name!r}, but {installed.hash} "
                "is installed",
                where=f"task {task.id}",
                remedy="install that version, or `rods data rehash FILE`",
            )
    named = sorted({cards.version(task) for task in tasks})
    return {"count": len(tasks), "hash": content_id(sorted(task.id for task in tasks)), "environments": named}


class _Session:
    """One start of an evaluation."""

    def __init__(self, folder: Path, maker: Maker, chosen: list[AnyTask], asked: Callable[[], bool]) -> None:
        self.folder, self.settings, self.chosen, self.asked = folder, maker.settings, chosen, asked
        self.journal = Journal(folder)
        self.maker = maker
        self.expected = len(chosen) * self.settings.samples
        self.stopped: Counter[str] = Counter()
        self._said = time.monotonic()

    def run(self, source: Source, options: Options) -> None:
        slots = [
            (task, sample)
            for sample in range(self.settings.samples)
            for task in self.chosen
            if (self.settings.name(task), sample) not in self.journal.done
        ]
        if slots and source.kind != "endpoint":  # whose servers are to be asked first
            self._describe(source, cards.template_of(source.path) if source.kind == "weights" else None)
        if source.recorded:
            self._take(source)
        elif slots and source.kind == "endpoint":
            asyncio.run(self._ask(source, slots, options.in_flight))
        elif slots:
            from trainer.engines.local import LocalEngine  # torch only where weights are

            limits = self.settings.limits(options.max_context)
            engine = LocalEngine.load_alone(source.path, limits, source.operation, "transformers")
            play_batches(engine, self.maker, slots, options.in_flight, self._done, self.asked)

    def code(self, source: Source) -> int:
        """The exit code of this start; says what is left out and why on standard error."""
        left = self.expected - len(self.journal.done)
        if not left:
            return EXIT_OK
        for reason, count in self.stopped.most_common(5):
            complain("rods-eval", f"{count} episodes left out: {reason}")
        if source.recorded:
            complain("rods-eval", f"the recorded outputs lack {left} of {self.expected} episodes")
            return EXIT_FAILED
        complain("rods-eval", f"{left} of {self.expected} episodes are left; the same command goes on")
        return EXIT_REQUEUE

    def _describe(self, source: Source, template: str | None) -> None:
        """Puts the card on record, before the first episode that it is about."""
        settings = self.settings
        history: cards.History = "recorded" if source.recorded else "tokens" if source.kind == "weights" else "messages"
        self.journal.describe(
            cards.card(
                self.chosen,
                settings.part,
                [] if source.recorded else [self.maker.job(task) for task in self.chosen],
                history=history,
                template=template,
                random_seeds={} if source.recorded else {"rollouts": RANDOM_SEED},
                sampling={
                    "samples_per_task": settings.samples,
                    "temperature": settings.temperature,
                    "top_p": settings.top_p,
                    "max_tokens": settings.max_tokens,
                },
            )
        )

    async def _ask(self, source: Source, slots: list[Slot], in_flight: int) -> None:
        assert source.endpoint is not None
        async with UsageLog(self.folder, "evaluation") as usage:
            budget = Budget(source.budgets, tokens=usage.tokens, requests=usage.requests)
            async with Client([source.endpoint], budget=budget, sink=usage) as client:
                servers = [base for one in client.status() for base in one["servers"]]
                if self.settings.protocol != "official":
                    await refuse_dropped_reasoning(source.endpoint.model, servers)
                self._describe(source, await rendered_template(source.endpoint.model, servers))
                policy = EndpointPolicy(client, self.maker, in_flight)
                self.stopped = policy.stopped
                await policy.run(slots, self._done, self.asked)

    def _take(self, source: Source) -> None:
        """Records outputs that exist. Traces may hold several episodes of a task: the first `samples` count."""
        counted: Counter[str] = Counter()
        for entry, end in list(self._entries(source)):  # all are looked at before one is taken
            if counted[entry.id] < self.settings.samples:
                self._done(Episode(entry.id, counted[entry.id], self.settings.form, entry.result, end))
            counted[entry.id] += 1

    def _entries(self, source: Source) -> Iterator[tuple[ResultEntry, str]]:
        by_name = {task.provenance["id"]: scripted(task, "a file of outputs") for task in self.chosen}
        if source.kind == "traces":
            yield from results.read_traces(source.path, by_name)
        else:
            for entry in results.read(source.path, by_name, self.settings.form):
                yield entry, "finished"

    def _done(self, episode: Episode) -> None:
        self.journal.add(episode)
        if time.monotonic() - self._said >= SAY_SECONDS:
            self._said = time.monotonic()
            print(f"rods-eval: {len(self.journal.done)} of {self.expected} episodes", file=sys.stderr, flush=True)
