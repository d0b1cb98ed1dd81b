"""Has agents write feedback for failures that repeat: generator, gates, probe, judge, at most three
attempts (000 Appendix C.3), every step on record before the next. Nobody is asked about a failure
that cannot be brought about in another world. A question is on record before it is sent, so that a
kill leaves an attempt less and never one more; one that no endpoint answered does not count.
Whether a text is approved follows from the judge's four verdicts."""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from rods.analysis.containment import stems
from rods.asking import Question, read_forms
from rods.buffers.log.record_bytes import quarantine, record
from rods.buffers.log.writer import LogWriter
from rods.buffers.state import RunState
from rods.canonical import JsonObject, frozen, keyed_random, only
from rods.composing.records import ComposeError
from rods.daemon.authors.base import in_thread
from rods.daemon.authors.llm import showing
from rods.daemon.authors.llm.questions import Asker
from rods.daemon.writers import Beside, DaemonWork
from rods.environments.base import Environment, Tool
from rods.errors import BudgetSpent
from rods.family.feedback import gates
from rods.family.feedback.cases import NOT_ASKED, FeedbackFold
from rods.family.feedback.failures import MinedFailure
from rods.family.feedback.gates import LONGEST, RefusedCall, Remedy, mends
from rods.family.feedback.hints import failure_id
from rods.family.feedback.settings import FEEDBACK, by_agents, mines, settings_of
from rods.llm import EndpointError, RequestRefused
from rods.logs import log
from rods.prompts import load
from rods.transcripts import line

NAME = "feedback"  # of the extension, and of its accounts
OBJECTION = "An earlier answer to this was not accepted, and why:\n{objected}\nWrite a better one."


@frozen
class RepeatedFailure:
    """A kind of failure to be asked about, with its id and the environment that it was met in."""

    id: str
    environment: str
    mined: MinedFailure

    @property
    def names(self) -> dict[str, str]:
        """What records name it by."""
        return {
            "environment": self.environment,
            "tool": self.mined.tool,
            "pattern": self.mined.pattern,
        }


class _Objection(Exception):
    """Why a text may not be shown: what the generator, the gates, the probe or the judge (`by`)
    found."""

    def __init__(self, by: str, why: str, text: str = "") -> None:
        super().__init__(why)
        self.by = by
        self.why = why
        self.text = text


def work(daemon: Beside) -> "Correcting | None":
    """What a daemon does."""
    return Correcting(daemon) if by_agents(daemon.run.config) else None


class Correcting(DaemonWork):
    """Works on one failure at a time."""

    def __init__(self, daemon: Beside) -> None:
        run = daemon.run
        writers = daemon.writers
        self.settings = settings_of(run.config)
        self.config = run.config
        self.run = run
        self._log = LogWriter(run.path / FEEDBACK, part_bytes=run.config.operation.log_part_bytes)
        with quarantine():
            self.fold = FeedbackFold(run.path, strict=True)
            self.fold.poll()  # from here on it learns what is written by applying it
        writers.able = bool(run.config.operation.endpoints)
        if not writers.able:
            log.warning(
                "no endpoint is configured: failures are answered by rule alone",
                key="operation.endpoints",
            )
        self._writers = writers
        self._threads = daemon.threads
        self._tasks = daemon.tasks  # what may not be given away
        # of the first task that a kind of failure was met in
        self._environments: dict[tuple[str, str], str] = {}
        self._taken: set[str] = set()  # queued or in work
        self.open_at = math.inf  # the earliest step that made due what is not closed

    @property
    def written(self) -> int:
        """Records in the log."""
        return self._log.seq

    def close(self) -> None:
        self._log.close()

    def due(self, state: RunState) -> list[Callable[[], Awaitable[None]]]:
        """The jobs for what is due, open, and not handed out yet; meant for a thread."""
        if not self._writers.able or not mines(self.config, state.stage):
            self.open_at = math.inf
            return []
        mining = state.folds[NAME]
        candidates = (self._failure(mined, state) for mined in mining.due())
        failures = [failure for failure in candidates if not self._closed(failure)]
        if self._writers.spent:  # nobody is asked any more, and nothing waits for it
            failures = [failure for failure in failures if failure.id in self._taken]
        self.open_at = min((failure.mined.due for failure in failures), default=math.inf)
        fresh = [failure for failure in failures if failure.id not in self._taken]
        self._taken |= {failure.id for failure in fresh}
        return [partial(self._lead, failure) for failure in fresh]

    async def _lead(self, failure: RepeatedFailure) -> None:
        """Leads one failure to its end, or as far as endpoints and environments let it: then it is
        due again."""
        # of this task alone
        structlog.contextvars.bind_contextvars(failure=failure.id, tool=failure.mined.tool)
        try:
            await self._work(failure)
        finally:
            self._taken.discard(failure.id)

    async def _work(self, failure: RepeatedFailure) -> None:
        mined = failure.mined
        environment = self.run.environments.load(failure.environment)
        tool = environment.tools().get(mined.tool)
        seen = (
            await in_thread(self._threads, lambda: self._brought_about(failure, environment, tool))
            if tool
            else []
        )
        if tool is None or not seen:
            await self._give_up(
                failure, "it could not be brought about in the world of another task"
            )
            return
        while not self._closed(failure):
            case = self.fold.cases.get(failure.id, NOT_ASKED)
            number = case.questions + 1
            if case.attempts >= self.settings.attempts:
                why = f"{case.attempts} attempts: {case.objection}"[:LONGEST]
                await self._give_up(failure, why)
                return
            await self._record(
                "asked",
                failure.id,
                number=number,
                **failure.names,
                rollouts=mined.rollouts,
                calls=mined.calls,
                step=mined.due,
            )
            try:
                await self._attempt(failure, number, environment, tool, seen)
            except _Objection as objection:
                why = objection.why[:LONGEST]
                await self._record(
                    "objected",
                    failure.id,
                    number=number,
                    by=objection.by,
                    why=why,
                    text=objection.text[:LONGEST],
                )
                log.info("feedback refused", by=objection.by, why=objection.why)
                cause = objection.__cause__
                if isinstance(cause, EndpointError | BudgetSpent) and not isinstance(
                    cause, RequestRefused
                ):
                    raise cause from None

    async def _attempt(
        self,
        failure: RepeatedFailure,
        number: int,
        environment: Environment,
        tool: Tool,
        seen: Sequence[RefusedCall],
    ) -> None:
        """One text, from the question to its end. Raises _Objection, EndpointError and
        BudgetSpent."""
        asker = self._writers.asker(NAME, failure.id)
        rng = partial(keyed_random, self.config.random_seeds.daemon, "feedback", failure.id, number)
        case = self.fold.cases[failure.id]
        objected = line({"answer": case.objected or "(nothing)", "why": case.objection})
        objection = OBJECTION.format(objected=objected) if case.objection else ""
        try:
            proposal = await propose(asker, rng, environment, tool, failure.mined, objection)
        except RequestRefused as error:
            raise _Objection("generator", str(error)) from error
        except (EndpointError, BudgetSpent) as error:
            await self._record("unanswered", failure.id, number=number, why=str(error)[:LONGEST])
            raise
        except ComposeError as error:
            raise _Objection("generator", error.detail, error.said) from error
        if not proposal.needed:
            await self._give_up(failure, "the generator holds that the refusal says enough")
            return
        text = proposal.text
        remedy = proposal.remedy
        faults = await in_thread(
            self._threads, lambda: self._faults(failure, environment, tool, proposal)
        )
        if faults or remedy is None:
            raise _Objection("gates", "; ".join(faults), text)
        mended = await in_thread(
            self._threads, lambda: sum(mends(environment, refused, remedy) for refused in seen)
        )
        if 2 * mended < len(seen):
            raise _Objection(
                "probe",
                f"following it ({remedy.kind}) mends the call in {mended} of {len(seen)} worlds",
                text,
            )
        try:
            opinion = await judge(
                asker, rng, environment, tool, failure.mined.pattern, text, remedy
            )
        except (EndpointError, BudgetSpent, ComposeError) as error:
            raise _Objection(
                "judge", f"no verdict: {getattr(error, 'detail', error)}", text
            ) from error
        if not opinion.consistent:
            log.info(
                "the judge contradicts itself; its four verdicts count", failed=list(opinion.failed)
            )
        if opinion.failed:
            raise _Objection("judge", f"fails {', '.join(opinion.failed)}: {opinion.reason}", text)
        await self._record(
            "approved",
            failure.id,
            number=number,
            text=text,
            category=proposal.category,
            type=proposal.type,
            remedy=asdict(remedy),
            probe={"worlds": len(seen), "mended": mended},
            judge={
                **opinion.verdicts,
                "reason": opinion.reason[:LONGEST],
                "consistent": opinion.consistent,
            },
            model=asker.backbone,
            prompts=dict(asker.hashes),
        )
        log.info("feedback approved", text=text, attempts=number)

    def _faults(
        self, failure: RepeatedFailure, environment: Environment, tool: Tool, proposal: "Proposal"
    ) -> list[str]:
        """What the rules hold against a text and its remedy."""
        remedy = proposal.remedy
        tools = environment.tools()
        if remedy is None:
            return [
                "it names no remedy, so it cannot be tried: look_up, first or argument, else no"
            ]
        if faults := remedy.faults(environment, tool, failure.mined.shapes):
            return faults
        about = f"{remedy.argument} {remedy.tool}"
        if set(stems(about)).isdisjoint(stems(proposal.text)):
            return [f"its remedy is about {about.strip()}, of which the text says nothing"]
        truth = gates.GroundTruthValues(self._tasks())
        other = tools.get(remedy.tool)
        doubts = self.settings.doubts == "refuse"
        return gates.feedback_faults(
            environment, tool, other, failure.mined.pattern, proposal.text, truth, doubts
        )

    def _brought_about(
        self, failure: RepeatedFailure, environment: Environment, tool: Tool
    ) -> list[RefusedCall]:
        mined = failure.mined
        others = [
            task
            for task in self.run.tasks
            if task.split == "train"
            and task.environment.name == failure.environment
            and task.id not in mined.tasks
        ]
        rng = keyed_random(self.config.random_seeds.daemon, "feedback", failure.id, "worlds")
        return gates.witnesses(environment, others, tool, mined.pattern, mined.shapes, rng)

    async def _give_up(self, failure: RepeatedFailure, why: str) -> None:
        await self._record("given_up", failure.id, **failure.names, why=why)
        log.info("no feedback", why=why)

    async def _record(self, kind: str, failure: str, **fields: Any) -> None:
        """Records what came of asking about a kind of failure: `asked` before each question,
        `unanswered` where no endpoint answered it, `objected`, `approved`, `given_up`. One call at
        a time."""
        entry = record(kind, failure=failure, **fields, time=round(time.time(), 3))
        seq = await asyncio.to_thread(self._log.append, [entry])
        self.fold.apply(entry, seq)

    def _closed(self, failure: RepeatedFailure) -> bool:
        return self.fold.cases.get(failure.id, NOT_ASKED).state != "open"

    def _failure(self, mined: MinedFailure, state: RunState) -> RepeatedFailure:
        key = mined.tool, mined.pattern
        if key not in self._environments:
            self._environments[key] = state.task(mined.tasks[0]).environment.name
        return RepeatedFailure(
            failure_id(self._environments[key], *key), self._environments[key], mined
        )


FORMS = read_forms(Path(__file__).with_name("forms.toml"))
OTHERS = 60  # tools of the class that are shown


@frozen
class Proposal:
    """What the generator wrote. `needed`: whether the refusal should say more at all; `remedy` is
    None where it names none."""

    needed: bool
    category: str
    type: str
    text: str
    remedy: Remedy | None


@frozen
class Opinion:
    """What the judge found: its four verdicts, why, and whether it said itself what follows from
    them."""

    verdicts: Mapping[str, bool]
    failed: tuple[str, ...]  # those that stand against the text
    reason: str
    consistent: bool


async def propose(
    asker: Asker,
    rng: Callable[[str], random.Random],
    environment: Environment,
    tool: Tool,
    mined: MinedFailure,
    objection: str,
) -> Proposal:
    """Raises ComposeError for an answer that cannot be read, EndpointError, BudgetSpent."""

    def read(answer: JsonObject) -> Proposal:
        kind = answer["remedy"]
        parts = {name: answer[name].strip().strip("`'\"") for name in ("tool", "argument", "shape")}
        remedy = None if kind == "none" else Remedy(kind, **parts)
        text = " ".join(answer["feedback"].split())
        return Proposal(answer["needed"] == "yes", answer["category"], answer["type"], text, remedy)

    # other names are the policy's words
    shapes = [only(shape, tool.parameter_names) for shape in mined.shapes]
    fields = {
        **_about(environment, tool, mined.pattern),
        "often": f"in {mined.rollouts} attempts at {len(mined.tasks)} tasks or more",
        "shapes": "\n".join(map(line, filter(None, shapes))) or "(none)",
        "examples": _examples(asker, tool),
        "objection": objection,
    }
    return await asker.ask_keyed(
        rng, Question("feedback", fields, FORMS["feedback"], read), "query_gen_failed"
    )


async def judge(
    asker: Asker,
    rng: Callable[[str], random.Random],
    environment: Environment,
    tool: Tool,
    pattern: str,
    text: str,
    remedy: Remedy,
) -> Opinion:
    """Raises ComposeError for an answer that cannot be read, EndpointError, BudgetSpent."""

    def read(answer: JsonObject) -> Opinion:
        verdicts = {name: answer[name] for name in gates.VERDICTS}
        why = answer.get("suggestion", "").strip() or answer["reason"].strip()
        failed = gates.failing(verdicts)
        return Opinion(verdicts, failed, why, answer["approved"] is not bool(failed))

    advice = {
        "look_up": f"take {remedy.argument} of {tool.name} from what {remedy.tool} returns",
        "first": f"call {remedy.tool} before {tool.name}",
        "argument": f"give {remedy.argument} of {tool.name} in the form {remedy.shape}",
    }[remedy.kind]
    other = environment.tools().get(remedy.tool)
    doubts = gates.feedback_doubts(environment, tool, other, pattern, text)
    fields = {
        **_about(environment, tool, pattern),
        "feedback": line({"answer": text}),
        "remedy": advice,
        "doubts": "\n".join(line({"doubt": doubt}) for doubt in doubts) or "(none)",
    }
    return await asker.ask_keyed(
        rng,
        Question("feedback_judge", fields, FORMS["feedback_judge"], read, judges=True),
        "query_verify_no_tag",
    )


def _about(environment: Environment, tool: Tool, pattern: str) -> Mapping[str, str]:
    others = [
        other
        for other in environment.tools().values()
        if other.group == tool.group and other.name != tool.name
    ]
    signatures = showing.signatures(others[:OTHERS]) or "(none)"
    return {
        "tool": showing.schemas([tool]),
        "others": signatures,
        "pattern": line({"refusal": pattern}),
    }


def _examples(asker: Asker, tool: Tool) -> str:
    """Examples for other tools of the class of `tool`; general ones where the class has none."""
    name = "feedback_class_any"
    with suppress(ValueError, OSError):
        name = load(f"feedback_class_{tool.group}").name
    examples = asker.template(name).text.split("\n\n")
    return "\n\n".join(one for one in examples if not one.startswith(f"Tool: {tool.name}\n"))
