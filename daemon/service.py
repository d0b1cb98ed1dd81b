"""The daemon's service: watch the trainer, pick seeds, have variants and feedback written, log
everything.

One asyncio task watches, one starts what waits in the seed queue, one does the jobs of features.
Each pick in flight has a task too (but those of a static pool: rods.daemon.static_pool), which
awaits its records one by one, so they have one order: picked, expanded, finished. In lockstep the
records of picks also stand in the order of the picks, whichever was done first, so that a run's
pool is the same bytes with any number of workers. Nothing is lost by a kill: what is not on record
is derived again at the next start."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor

import structlog

from rods.buffers.daemon_log import DaemonLog
from rods.buffers.folds.seeds import Unfinished
from rods.buffers.run.run import Run
from rods.canonical import JsonObject
from rods.composing.records import ComposeError
from rods.daemon.authors.base import Assignment, Rejection
from rods.daemon.pipeline import Pipeline
from rods.daemon.watching import SeedQueue, TrainerLife, Watch
from rods.daemon.writers import DAEMON_WORK, DaemonWork, Writers
from rods.errors import say
from rods.gates.similarity import DuplicateIndex, held_out_index
from rods.logs import log
from rods.rules.selection import Pick, select
from rods.rules.zones import TaskSignal
from rods.tasks import AnyTask

BARREN = 20  # after so many seeds in a row without a variant, a line of the log says so
Admit = Callable[[AnyTask], list[str]]


class Service:
    """One run's daemon. Raises RefusedError as DaemonLog does, UserError when nobody can write."""

    def __init__(self, run: Run, threads: Executor) -> None:
        self.run = run
        self.config = run.config
        self.lockstep = run.config.sync == "lockstep"
        self.held_out = held_out_index(run.guarded)
        self.writers = Writers(run, self.held_out, threads)
        self.log = DaemonLog(run)
        self.watch = Watch(run)
        in_order = self.lockstep or run.config.pool.static  # and no pick is ever dropped
        self.queue = SeedQueue(None if in_order else run.config.selection.queue_steps or None)
        self.originals = run.training
        self.neighbours = DuplicateIndex(self.originals.tasks, staging=not self.lockstep)
        self.pipeline = Pipeline(
            run.config, self.held_out, threads, self.writers.kinds, self.writers.places
        )
        self.generated: list[AnyTask] = []  # variants of the pool; in sync=free of staging, too
        self.threads = threads
        works = (work(self) for work in DAEMON_WORK)
        self.feature_work = [work for work in works if work is not None]  # beside picks
        # jobs of that work, a queue for each feature: few, and never dropped
        self.feature_jobs = [
            asyncio.Queue[Callable[[], Awaitable[None]]]() for _ in self.feature_work
        ]
        self.life = TrainerLife(run.path)
        # held while the watch reads on, so that nobody sees a pool half folded
        self.reading = asyncio.Lock()
        self.in_flight = 0
        # what of it takes no worker: jobs beside picks, and picks whose records wait for others
        self.ready = 0
        # the most variants that picks may still bring: the unfinished ones of the last look, and
        # those made since
        self.owed = 0
        self.barren = 0  # seeds in a row that gave no variant
        self.paused = False  # picks could not be served now: staging is full, say
        self.seedless = False  # the last step that was considered had no seed
        self._freed = asyncio.Event()  # somebody may be free

    async def serve(self, stop: asyncio.Event) -> None:
        """Works until `stop` is set or the trainer has been gone for `idle_exit_seconds`. What is
        in flight then stays unfinished and is taken up at the next start."""
        try:
            async with self.writers:
                self.run.log_start("daemon", workers=self.writers.workers, **self.writers.known())
                async with asyncio.TaskGroup() as group:
                    jobs = map(self._do_feature_jobs, self.feature_work, self.feature_jobs)
                    loops = (self._watch(stop), self._work(), *jobs)
                    tasks = [group.create_task(loop) for loop in loops]
                    await stop.wait()
                    for task in tasks:
                        task.cancel()
        finally:
            for work in self.feature_work:
                work.close()
            self.log.close()

    def _resume(self) -> None:
        """Queues the picks that an earlier daemon left unfinished; the queue's bound decides which
        are still fresh."""
        unfinished = sorted(
            self.log.state.unfinished.values(), key=lambda pick: (pick.step, pick.rank)
        )
        self.queue.add(unfinished)
        if unfinished:
            log.info("unfinished picks taken up", picks=len(unfinished))

    async def _watch(self, stop: asyncio.Event) -> None:
        first = True
        reported = False
        while True:
            await asyncio.to_thread(self.log.check)
            await asyncio.to_thread(self.log.keep_totals)
            async with self.reading:
                self.owed = len(self.log.state.unfinished) * self.config.pipeline.variants_per_seed
                await self._read_on()
                if first:
                    self._resume()
                    first = False
                for work, jobs in zip(self.feature_work, self.feature_jobs, strict=True):
                    for job in await asyncio.to_thread(work.asked, self.watch.state):
                        jobs.put_nowait(job)
                await self._drop_stale()
                await self._consider()
            if self.finished and not reported:
                log.info("run finished", step=self.watch.newest)
                stays = "nothing is left to write, and this daemon stays until Ctrl-C"
                say(f"rods-daemon: the run is finished: {stays}", aside=True)
            reported = self.finished
            self._beat()
            idle = self.config.operation.idle_exit_seconds
            if idle and self.idle and await self.life.gone_for(self.watch.newest) > idle:
                log.info("no living trainer", seconds=idle)
                stop.set()
            await asyncio.sleep(self.config.operation.poll_seconds)

    async def _read_on(self) -> None:
        """Reads all that the trainer has written by now."""
        on_record = self.neighbours.on_record
        if await asyncio.to_thread(self.watch.look, self.log.state.last_considered):
            self.generated = await asyncio.to_thread(self.watch.generated)
            self.neighbours = self.neighbours.renewed(self.generated, on_record)

    async def _drop_stale(self) -> None:
        stale = self.queue.advance(self.watch.newest, self.watch.state.epoch)
        why = f"the trainer had reached step {self.queue.newest} before anyone was free"
        async with asyncio.TaskGroup() as group:
            for pick in stale:
                group.create_task(self.log.finished(pick.pick, pick.accepted, 0, dropped_stale=why))

    async def _consider(self) -> None:
        """Picks the seeds of every step that is due. While picks could not be served no step is
        considered in sync=free; in lockstep a step has no seed where what was picked before it has
        filled staging."""
        state = self.log.state
        self.paused = not self.lockstep and self.stalled
        if self.paused:
            return
        # in lockstep steps wait for the work of features that is due: the next merge knows it then
        open_at = (work.open_at for work in self.feature_work if self.lockstep)
        before = min(open_at, default=math.inf)
        # in lockstep a step waits, too, while it depends on unfinished picks whether staging is
        # full: no pick depends on a clock
        while not self.lockstep or self._full() or not self._full(self.owed):
            if (step := self.watch.due(state.last_considered, before)) is None:
                break
            began = time.perf_counter()
            candidates = self.watch.candidates(step)
            self.paused = self.lockstep and self._full()
            picks = self._choose(step.step, [] if self.paused else candidates)
            self.seedless = not picks and not self.paused
            self.log.note_epoch(step.epoch)
            await self.log.picked(step.step, step.epoch, [pick.as_json() for pick in picks])
            self.queue.add(state.unfinished[pick.id] for pick in picks)
            self.owed += len(picks) * self.config.pipeline.variants_per_seed
            log.info(
                "considered",
                step=step.step,
                epoch=step.epoch,
                picks=len(picks),
                milliseconds=round((time.perf_counter() - began) * 1000, 2),
            )

    @property
    def stalled(self) -> bool:
        return self._full() or self.writers.spent

    def _choose(self, step: int, candidates: list[TaskSignal]) -> list[Pick]:
        """The seeds of a step."""
        return select(step, candidates, self.watch.active, self.log.state.last_picked, self.config)

    def _full(self, more: int = 0) -> bool:
        """Whether staging, with so many `more`, has more than `staging_epochs` merges inject."""
        rules = self.config.pool
        most = rules.staging_epochs * rules.inject_fraction * len(self.watch.active)
        return bool(rules.staging_epochs) and self.watch.staged() + more > most

    @property
    def waiting(self) -> int:
        """Picks and jobs that nobody has begun."""
        return len(self.queue) + sum(jobs.qsize() for jobs in self.feature_jobs)

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.in_flight

    def tasks(self) -> list[AnyTask]:
        return [*self.run.tasks, *self.generated]

    @property
    def finished(self) -> bool:
        """Whether the trainer has taken (in lockstep: this has considered) the last step, and all
        that was picked is done."""
        last = self.log.state.last_considered if self.lockstep else self.watch.newest
        return last >= self.config.training.steps and self.idle

    def _beat(self) -> None:
        written = self.log.written + sum(work.written for work in self.feature_work)
        self.log.heartbeat.beat(
            progress=(written, self.writers.calls),
            state=self._state(),
            step=self.watch.newest,
            considered=self.log.state.last_considered,
            queue=self.waiting,
            in_flight=self.in_flight,
            staged=self.watch.staged(),
            work=written + self.writers.calls,
            **self.writers.status(),
        )

    def _state(self) -> str:
        if not self.idle:
            return "no endpoint answers" if self.writers.cut_off else "working"
        if self.finished:
            return "run finished"
        if self.writers.spent:
            return "budget spent"
        if self.paused:
            return "staging full"
        return "no seeds" if self.seedless else "idle"

    async def _work(self) -> None:
        """Starts picks as they come, at most `workers` at a time; a slow one holds up no other. The
        seed is read when its pick starts (None: it has left the pool). What a variant may not
        nearly repeat is in lockstep the pool of that moment, which is that of its epoch, whatever a
        rewound trainer does meanwhile; in `sync=free` what there is when it is admitted."""
        latest: asyncio.Task[None] | None = None
        async with asyncio.TaskGroup() as group:
            while True:
                while self.in_flight - self.ready >= self.writers.workers:
                    self._freed.clear()
                    await self._freed.wait()
                async with self.reading:  # the pool is not read on meanwhile
                    if (pick := self.queue.take()) is not None:
                        self.in_flight += 1
                        try:
                            # from a disk
                            seed = await asyncio.to_thread(self.watch.state.task, pick.task)
                        except KeyError:  # injected in an epoch that a start has dropped
                            seed = None
                        admit = (
                            self.neighbours.admit
                            if self.lockstep
                            else lambda task: self.neighbours.admit(task)
                        )
                        latest = group.create_task(
                            self._write(pick, seed, admit, latest if self.lockstep else None)
                        )
                        latest.add_done_callback(self._done)
                if pick is None:
                    await self.queue.changed()

    def _done(self, task: asyncio.Task[None]) -> None:
        self.in_flight -= 1
        self._freed.set()

    async def _do_feature_jobs(
        self, work: DaemonWork, jobs: asyncio.Queue[Callable[[], Awaitable[None]]]
    ) -> None:
        """Does the jobs of a feature, one at a time; they take no worker."""
        while True:
            job = await jobs.get()
            self.in_flight += 1
            self.ready += 1
            await work.do(job)
            self.in_flight -= 1
            self.ready -= 1

    async def _write(
        self,
        pick: Unfinished,
        seed: AnyTask | None,
        admit: Admit,
        before: asyncio.Task[None] | None,
    ) -> None:
        """Writes the variants of one pick that are not on record yet, then finishes it. `before`:
        the pick whose records come first; whoever waits for it holds no worker."""
        discarded = 0
        why = None
        variants: list[tuple[int, AnyTask]] = []
        for index in range(self.config.pipeline.variants_per_seed):
            if index not in pick.variants:
                outcome = await self._outcome(pick, index, seed, admit)
                if isinstance(outcome, AnyTask):
                    variants.append((index, outcome))
                else:
                    discarded += 1
                    why = outcome
                if before is None or before.done():
                    await self._put_on_record(pick, variants)
        if before is not None and not before.done():
            self.ready += 1
            self._freed.set()
            await asyncio.wait([before])
            self.ready -= 1
        await self._put_on_record(pick, variants)
        await self.log.finished(pick.pick, pick.accepted, discarded, why=why)
        self.barren = 0 if pick.variants else self.barren + 1
        if self.barren and self.barren % BARREN == 0:
            log.warning(
                "no variants",
                seeds_in_a_row=self.barren,
                why=why,
                see="rejected.jsonl, `rods status`",
            )

    async def _put_on_record(self, pick: Unfinished, variants: list[tuple[int, AnyTask]]) -> None:
        """Puts variants on record, by index, and takes them off the list."""
        while variants:
            index, variant = variants.pop(0)
            await self.log.expanded(pick.pick, index, variant)
            self.neighbours.written(variant.id)
            log.info("variant staged", variant=variant.id, attempts=variant.provenance["attempts"])

    async def _outcome(
        self, pick: Unfinished, index: int, seed: AnyTask | None, admit: Admit
    ) -> AnyTask | str:
        """A variant, or why there is none."""
        # for the lines of this asyncio task alone
        structlog.contextvars.bind_contextvars(step=pick.step, seed=pick.task)
        generation = pick.record["why"]["generation"] + 1
        outcome = (
            await self._variant(pick.pick, index, seed, generation, admit)
            if seed
            else "the seed has left the pool"
        )
        if not isinstance(outcome, AnyTask):
            log.info("discarded", why=outcome)
        return outcome

    async def variant(self, pick: str, seed: AnyTask) -> AnyTask | str:
        generation = seed.provenance.get("generation", 0) + 1
        outcome = await self._variant(pick, 0, seed, generation, self.neighbours.admit)
        if isinstance(outcome, AnyTask):  # whoever asked puts it on record, or what becomes of it
            self.neighbours.written(outcome.id)
        return outcome

    async def _variant(
        self, pick: str, index: int, seed: AnyTask, generation: int, admit: Admit
    ) -> AnyTask | str:
        """The outcome of the pipeline: a variant, or why there is none."""
        on_record: list[Awaitable[None]] = []

        def reject(failed: Rejection) -> None:
            fields: JsonObject = {
                "stage": failed.stage,
                "error": failed.error,
                "attempt": failed.attempt,
            }
            on_record.append(
                self.log.rejected(pick, index, evidence=failed.evidence, raw=failed.raw, **fields)
            )
            log.info("rejected", variant=index, **fields)

        try:
            environment = self.run.environments.load(seed.environment.name)
            author = self.pipeline.kind(seed).author(
                self.writers.asking, environment, seed, pick, index
            )
            root = self.originals.get(seed.provenance.get("root", ""), seed)
            assignment = Assignment(pick, index, seed, root, generation)
            return await self.pipeline.write(assignment, author, environment, admit, reject)
        except ComposeError as error:  # there is no author for it
            reject(Rejection("plan", error.type, error.as_json()))
            return error.type
        finally:
            await asyncio.gather(*on_record)  # before the pick is finished
