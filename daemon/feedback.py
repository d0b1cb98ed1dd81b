"""Has agents write feedback for failures that repeat: generator, gates, probe, judge, at most three attempts (000
Appendix C.3), every step on record before the next.

A failure is taken up once it is due (rods.rules.mining) and was not approved or given up before. Nobody is asked about
one that cannot be brought about in another world, since nothing that was written about it could be tried. A question is
on record before it is sent, so that a kill leaves an attempt less and never one more; only a question that no endpoint
answered does not count. Gates come before the judge: they cost no call.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import structlog

from buffers.daemon_log import DaemonLog
from buffers.run.run import Run
from buffers.state import RunState
from daemon.authors.base import T, in_thread
from daemon.authors.llm import correcting
from daemon.authors.llm.correcting import Proposal
from daemon.queue import RepeatedFailure
from daemon.writers import Writers
from rods.analysis.says import stems
from rods.canonical import keyed_random
from rods.composing.records import ComposeError
from rods.environments.base import Environment, Tool
from rods.errors import InfrastructureError
from rods.gates.feedback import LONGEST, GroundTruthValues, feedback_faults
from rods.gates.probe import Witness, mends, witnesses
from rods.interfaces.approved import failure_id
from rods.llm import BudgetSpent, EndpointError, RequestRefused
from rods.logs import log
from rods.rules.mining import MinedFailure
from rods.tasks import AnyTask

REST = 30.0  # seconds until anybody is asked again after no endpoint answered
OBJECTION = "An earlier answer to this was not accepted:\n{text}\nWhat is wrong with it: {why}\nWrite a better one."


@dataclass(frozen=True, slots=True)
class _Question:
    """One attempt: what draws its chance."""

    random_seed: int
    failure: str
    number: int

    def rng(self, purpose: str) -> random.Random:
        return keyed_random(self.random_seed, "feedback", self.failure, self.number, purpose)


class Correcting:
    """Works on one failure at a time. `tasks`: what may not be given away, read anew for each text."""

    def __init__(
        self, run: Run, log: DaemonLog, writers: Writers, threads: Executor, tasks: Callable[[], Sequence[AnyTask]]
    ) -> None:
        self.run, self.config, self.log = run, run.config, log
        self._writers, self._threads, self._tasks = writers, threads, tasks
        self._known: dict[tuple[str, str], RepeatedFailure] = {}
        self._taken: set[str] = set()  # queued or in work
        self._open_at = math.inf  # the earliest step that made due what is not closed
        self._rest_until = 0.0

    @property
    def able(self) -> bool:
        """Whether there is anybody to ask."""
        return self._writers.asks_feedback

    def due(self, state: RunState) -> list[RepeatedFailure]:
        """What is due, open, and not handed out yet; meant for a thread."""
        if not self.able or not self.config.mines(state.stage):
            self._open_at = math.inf
            return []
        found = [one for one in (self._failure(mined, state) for mined in state.mining.due()) if not self._closed(one)]
        if self._writers.spent:  # nobody is asked any more, and nothing waits for it
            found = [one for one in found if one.id in self._taken]
        self._open_at = min((one.mined.due for one in found), default=math.inf)
        if time.monotonic() < self._rest_until:
            return []
        fresh = [one for one in found if one.id not in self._taken]
        self._taken |= {one.id for one in fresh}
        return fresh

    @property
    def open_at(self) -> float:
        """The earliest step at which something became due that is not closed yet; infinite where all is."""
        return self._open_at

    async def work(self, failure: RepeatedFailure) -> None:
        """Leads one failure to its end, or as far as endpoints and environments let it: then it is due again."""
        structlog.contextvars.bind_contextvars(failure=failure.id, tool=failure.mined.tool)  # of this task alone
        try:
            await self._work(failure)
        except (EndpointError, BudgetSpent, InfrastructureError) as error:
            self._rest_until = time.monotonic() + REST
            log.warning("no feedback for now", why=str(error))
        finally:
            self._taken.discard(failure.id)

    async def _work(self, failure: RepeatedFailure) -> None:
        mined, names = failure.mined, {"environment": failure.environment, "tool": failure.mined.tool}
        names["pattern"] = mined.pattern
        environment = self.run.environments.load(failure.environment)
        tool = environment.tools().get(mined.tool)
        seen = await self._compute(lambda: self._brought_about(failure, environment, tool)) if tool else []
        if tool is None or not seen:
            await self._give_up(failure, "it could not be brought about in the world of another task")
            return
        while not self._closed(failure):
            case = self.log.feedback.cases.get(failure.id)
            attempts, number = (case.attempts, case.questions + 1) if case else (0, 1)
            if attempts >= self.config.feedback.attempts:
                await self._give_up(failure, f"{attempts} attempts: {case.objection if case else ''}"[:LONGEST])
                return
            facts = {"rollouts": mined.rollouts, "calls": mined.calls, "step": mined.due}
            await self.log.corrected("asked", failure.id, number=number, **names, **facts)
            await self._attempt(failure, number, environment, tool, seen)

    async def _attempt(
        self, failure: RepeatedFailure, number: int, environment: Environment, tool: Tool, seen: Sequence[Witness]
    ) -> None:
        """One text, from the question to its end. Raises EndpointError and BudgetSpent where nobody answers."""
        asker = self._writers.asker(failure.id)
        question = _Question(self.config.random_seeds.daemon, failure.id, number)
        case = self.log.feedback.cases[failure.id]
        told = OBJECTION.format(text=case.objected or "(nothing)", why=case.objection) if case.objection else ""
        try:
            proposal = await correcting.propose(asker, question, environment, tool, failure.mined, told)
        except RequestRefused as error:
            await self._object(failure, number, "generator", str(error))
            return
        except (EndpointError, BudgetSpent) as error:
            await self.log.corrected("unanswered", failure.id, number=number, why=str(error)[:LONGEST])
            raise
        except ComposeError as error:
            await self._object(failure, number, "generator", error.detail, error.said)
            return
        if not proposal.needed:
            await self._give_up(failure, "the generator holds that the refusal says enough")
            return
        faults = await self._compute(lambda: self._faults(failure, environment, tool, proposal))
        if faults or proposal.remedy is None:
            await self._object(failure, number, "gates", "; ".join(faults), proposal.text)
            return
        remedy = proposal.remedy
        mended = await self._compute(lambda: sum(mends(environment, one, remedy) for one in seen))
        if 2 * mended < len(seen):
            why = f"following it ({remedy.kind}) mends the call in {mended} of {len(seen)} other worlds"
            await self._object(failure, number, "probe", why, proposal.text)
            return
        try:
            opinion = await correcting.judge(
                asker, question, environment, tool, failure.mined.pattern, proposal.text, remedy
            )
        except (EndpointError, BudgetSpent, ComposeError) as error:
            why = f"no verdict: {error.detail if isinstance(error, ComposeError) else error}"
            await self._object(failure, number, "judge", why, proposal.text)
            if not isinstance(error, ComposeError | RequestRefused):
                raise
            return
        if not opinion.consistent:
            log.info("the judge contradicts itself; its four verdicts count", failed=list(opinion.failed))
        if opinion.failed:
            why = f"fails {', '.join(opinion.failed)}: {opinion.reason}"
            await self._object(failure, number, "judge", why, proposal.text)
            return
        await self.log.corrected(
            "approved",
            failure.id,
            number=number,
            text=proposal.text,
            category=proposal.category,
            type=proposal.type,
            remedy=remedy.as_json(),
            probe={"worlds": len(seen), "mended": mended},
            judge={**opinion.verdicts, "reason": opinion.reason[:LONGEST], "consistent": opinion.consistent},
            model=asker.backbone,
            prompts=dict(asker.hashes),
        )
        log.info("feedback approved", text=proposal.text, attempts=number)

    def _faults(self, failure: RepeatedFailure, environment: Environment, tool: Tool, proposal: Proposal) -> list[str]:
        """What the rules hold against a text and its remedy."""
        remedy, tools = proposal.remedy, environment.tools()
        if remedy is None:
            return ["it names no remedy, so it cannot be tried: look_up, first or argument"]
        if faults := remedy.faults(environment, tool, failure.mined.shapes):
            return faults
        about = f"{remedy.argument} {remedy.tool}"
        if set(stems(about)).isdisjoint(stems(proposal.text)):
            return [f"its remedy is about {about.strip()}, of which the text says nothing"]
        truth = GroundTruthValues(self._tasks())
        other = tools.get(remedy.tool)
        return feedback_faults(environment, tool, other, failure.mined.pattern, proposal.text, truth)

    def _brought_about(self, failure: RepeatedFailure, environment: Environment, tool: Tool) -> list[Witness]:
        mined = failure.mined
        others = [
            task
            for task in self.run.tasks
            if task.split == "train" and task.environment.name == failure.environment and task.id not in mined.tasks
        ]
        rng = keyed_random(self.config.random_seeds.daemon, "feedback", failure.id, "worlds")
        return witnesses(environment, others, tool, mined.pattern, mined.shapes, rng)

    async def _object(self, failure: RepeatedFailure, number: int, by: str, why: str, text: str = "") -> None:
        await self.log.corrected("objected", failure.id, number=number, by=by, why=why[:LONGEST], text=text[:LONGEST])
        log.info("feedback refused", by=by, why=why)

    async def _give_up(self, failure: RepeatedFailure, why: str) -> None:
        mined = failure.mined
        await self.log.corrected(
            "given_up", failure.id, environment=failure.environment, tool=mined.tool, pattern=mined.pattern, why=why
        )
        log.info("no feedback", why=why)

    def _closed(self, failure: RepeatedFailure) -> bool:
        case = self.log.feedback.cases.get(failure.id)
        return case is not None and case.state != "open"

    def _failure(self, mined: MinedFailure, state: RunState) -> RepeatedFailure:
        """With the environment of the first task that it was met in."""
        key = mined.tool, mined.pattern
        if key not in self._known:
            environment = state.task(mined.tasks[0]).environment.name
            self._known[key] = RepeatedFailure(failure_id(environment, *key), environment, mined)
        known = self._known[key]
        return RepeatedFailure(known.id, known.environment, mined)

    def _compute(self, function: Callable[[], T]) -> asyncio.Future[T]:
        return in_thread(self._threads, function)
