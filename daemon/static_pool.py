"""Writes a static pool: as many variants as RODS keeps active, once, while the trainer waits (004
Appendix R).

The seeds are those of the opening epoch's boundary, one pick each. They take turns: try number n is
variant n ÷ seeds of seed n mod seeds, in the order of their ranks. Tries run side by side in
rounds, are put on record in their order, and whether a variant is new is judged against what
earlier rounds gave, so that what comes out depends neither on which of them was quicker nor on a
kill between two records. It ends when the pool is full, or when nothing has come of many tries in a
row."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from itertools import chain

from rods.buffers.folds.seeds import Unfinished
from rods.buffers.run.run import Run
from rods.config import Config
from rods.daemon.service import BARREN, Admit, Service
from rods.gates.similarity import DuplicateIndex
from rods.logs import log
from rods.rules.selection import Pick, TaskFacts, select
from rods.rules.zones import TaskSignal
from rods.tasks import AnyTask

# as many tries in a row without a variant as BARREN, and one of each seed, end a fill
Write = Callable[[Unfinished, int, Admit], Awaitable[AnyTask | str]]


def choose(
    step: int, candidates: Iterable[TaskSignal], active: Mapping[str, TaskFacts], config: Config
) -> list[Pick]:
    """The seeds of a static pool, picked at `step`: all that could be picked, up to the size of the
    pool. Each says how many there are, and how many variants are wanted of all."""
    room = config.pool.max_generated - sum(facts.generation > 0 for facts in active.values())
    wide = {"seeds_per_step": min(1, config.selection.seeds_per_step) * max(0, room), "quota": 0}
    config = config.model_copy(update={"selection": config.selection.model_copy(update=wide)})
    picks = select(step, candidates, active, {}, config)
    fill = {"seeds": len(picks), "variants": room}
    return [replace(pick, why={**pick.why, "static": fill}) for pick in picks]


@dataclass(slots=True)
class StaticPoolFill:
    """One fill. `neighbours` are the tasks that a variant must not repeat; `recorded` the variants,
    by pick and index, that an earlier daemon wrote; `write` makes one."""

    picks: Sequence[Unfinished]
    neighbours: DuplicateIndex
    recorded: dict[tuple[str, int], AnyTask]
    write: Write
    put_on_record: Callable[[Unfinished, list[tuple[int, AnyTask]]], Awaitable[None]]
    workers: int
    duplicates: bool  # whether near duplicates are refused
    # tries without a variant, by pick
    failed: Counter[str] = field(init=False, default_factory=Counter)

    @property
    def seeds(self) -> int:
        """How many there were in the beginning."""
        return int(self.picks[0].record["why"]["static"]["seeds"])

    async def run(self) -> str | None:
        """Fills the pool; returns why it stayed smaller than wanted, None when it did not."""
        wanted = self.picks[0].record["why"]["static"]["variants"]
        limit = max(BARREN, len(self.picks))
        tried = count = barren = 0
        reasons: Counter[str] = Counter()
        free = asyncio.Semaphore(self.workers)
        while count < wanted and barren < limit:
            numbers = range(tried, tried + min(wanted - count, limit))
            tries: list[asyncio.Task[AnyTask | str]] = []
            async with asyncio.TaskGroup() as group:
                for number in numbers:
                    tries.append(group.create_task(self._try(number, free, tries[-1:])))
            for number, outcome in zip(numbers, (task.result() for task in tries), strict=True):
                barren += 1
                if not isinstance(outcome, AnyTask):
                    reasons[outcome] += 1
                    self.failed[self._place(number)[0].pick] += 1
                elif self.duplicates and self.neighbours.admit(outcome):
                    reasons["duplicates"] += 1
                else:
                    self.neighbours.add(outcome)
                    count += 1
                    barren = 0
            tried += len(numbers)
            log.info("static pool", variants=count, wanted=wanted, tries=tried)
        if count >= wanted:
            return None
        often = ", ".join(f"{reason} {times}" for reason, times in reasons.most_common(3))
        why = (
            f"{count} of {wanted} variants of {self.seeds} seeds: {barren} tries in a row gave "
            f"none ({often})"
        )
        log.warning("static pool incomplete", why=why, see="rejected.jsonl")
        return why

    def _place(self, number: int) -> tuple[Unfinished, int]:
        index, rank = divmod(number, len(self.picks))
        return self.picks[rank], index

    async def _try(
        self, number: int, free: asyncio.Semaphore, before: list[asyncio.Task[AnyTask | str]]
    ) -> AnyTask | str:
        """A variant, on record behind that of the try `before`, or why there is none."""
        pick, index = self._place(number)
        outcome: AnyTask | str | None = self.recorded.get((pick.pick, index))
        if outcome is None:
            async with free:
                outcome = await self.write(pick, index, self.neighbours.admit)
        if before:
            await asyncio.wait(before)
        if isinstance(outcome, AnyTask) and (pick.pick, index) not in self.recorded:
            await self.put_on_record(pick, [(index, outcome)])
            self.recorded[pick.pick, index] = outcome
        return outcome


class StaticService(Service):
    """The daemon of a run with a static pool."""

    @property
    def stalled(self) -> bool:
        return False

    def _full(self, more: int = 0) -> bool:
        return False

    def _choose(self, step: int, candidates: list[TaskSignal]) -> list[Pick]:
        picks = choose(step, candidates, self.watch.active, self.config)
        if candidates and not picks:
            log.warning(
                "static pool empty", why="no task of the opening epoch lies at the boundary"
            )
        return picks

    async def _work(self) -> None:
        """Writes a static pool when its seeds are picked, or goes on with it."""
        while True:
            async with self.reading:
                picks = list(iter(self.queue.take, None))
                filling = self._filling(picks) if picks else None
            if filling is None:
                await self.queue.changed()
                continue
            self.in_flight += 1
            # some of its picks are finished only where a kill came after the last variant
            why = await filling.run() if len(picks) == filling.seeds else None
            for pick in picks:
                await self.log.finished(
                    pick.pick, pick.accepted, filling.failed[pick.pick], why=why
                )
            self.in_flight -= 1

    def _filling(self, picks: list[Unfinished]) -> StaticPoolFill:
        state = self.watch.state
        seeds = {pick.pick: state.task(pick.task) for pick in picks}
        generated = [state.task(member.task_id) for member in state.pool.generated]
        staged = state.staging.candidates(state.staging.seq, by_pick=True)
        recorded = {
            (variant.pick, variant.index): task
            for variant in staged
            if (task := variant.task) is not None
        }

        async def write(pick: Unfinished, index: int, admit: Admit) -> AnyTask | str:
            return await self._outcome(pick, index, seeds[pick.pick], admit)

        neighbours = DuplicateIndex(chain(self.originals.tasks, generated), staging=False)
        return StaticPoolFill(
            picks,
            neighbours,
            recorded,
            write,
            self._put_on_record,
            self.writers.workers,
            self.config.gates.duplicates,
        )


def service_of(run: Run, threads: Executor) -> Service:
    """The daemon of `run`. Raises what `Service` raises."""
    return (StaticService if run.config.pool.static else Service)(run, threads)
