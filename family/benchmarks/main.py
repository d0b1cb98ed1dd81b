"""`rods-eval`: a policy on a benchmark's tasks, with the official protocol and the official
verdict; or on any environment's.

    rods-eval run FOLDER --url http://host:8000/v1 --model NAME    the policy behind an endpoint
    rods-eval run FOLDER --weights MODEL | --run RUN [--step N]    local weights, or a checkpoint
    rods-eval run FOLDER --recorded RESULTS                        result files that exist
    rods-eval run FOLDER --tasks FILE …                            tasks of any environment
    rods-eval compare BEFORE AFTER             two policies on the same tasks, in pairs
    rods-eval suite RUN [--benchmarks NAME …]  a run's start and end on benchmarks, in one table
    rods-eval report FOLDER                    the scores of what is there
    rods-eval check FOLDER                     the benchmark's own scorer over the same outputs

Exit codes are those of `rods.errors`: 0 done, 1 a check found a difference (or recorded outputs
lack tasks), 2 bad input, 3 refused (other settings, other data), 5 incomplete: a budget, an
endpoint or a signal stopped it, and the same command goes on.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from rods import commands, logs
from rods.buffers.run.locks import Ownership
from rods.buffers.run.runfolder import LOGS
from rods.buffers.usage import UsageLog
from rods.commands import Json
from rods.config import Operation, Rollouts
from rods.console.output import print_result
from rods.environments.loading import Environments
from rods.episode.model_thread import ModelThread
from rods.errors import EXIT_FAILED, EXIT_OK, EXIT_REQUEUE, UserError, complain, say
from rods.evaluation import card as cards
from rods.family.benchmarks import episodes, output_sources, scores, suite
from rods.family.benchmarks.benchmarks import named, opened, packaged
from rods.family.benchmarks.contract import Benchmark, chosen, slots
from rods.family.benchmarks.folder import (
    COLDEST,
    EPISODES,
    SETTINGS,
    Episode,
    Journal,
    complete,
    episodes as journalled,
    lost,
    open_folder,
)
from rods.family.benchmarks.output_sources import Options, Source
from rods.family.benchmarks.task_file import TaskFile
from rods.llm import Budget, Client
from rods.llm.connections import handed_on
from rods.signals import StopRequest
from rods.tasks import AnyTask, scripted

Folder = Annotated[Path, Parameter(help="the evaluation's folder")]
DEFAULTS = Options()
SAY_SECONDS = 10.0  # between two lines about progress


def run(arguments: list[str]) -> int:
    """One verb; returns the exit code (rods.commands.run). Without arguments: the help."""
    return commands.run(
        application(),
        arguments or ["--help"],
        "interrupted; the same command goes on with the episodes that are left",
    )


def application() -> App:
    app = commands.application(
        "rods-eval", "A policy on a benchmark's tasks, or on any environment's."
    )
    for verb, name, text in (
        (_run, "run", "Run or go on with an evaluation, and print its scores."),
        (_suite, "suite", "A run's start and end on benchmarks, in pairs, as one table."),
        (_report, "report", "Print the scores of what is recorded."),
        (_compare, "compare", "Pair two evaluations of the same tasks, task by task."),
        (_check, "check", "Hold an evaluation to the benchmark's own scorer."),
    ):
        app.command(verb, name=name, help=text, default_parameter=commands.USUAL)
    return app


def _run(
    folder: Folder,
    /,
    *,
    options: Annotated[Options, Parameter(name="*")] = DEFAULTS,
    as_json: Json = False,
) -> int:
    code = evaluate(folder, options)
    _report(folder, as_json=as_json)
    return code


def evaluate(folder: Path, options: Options) -> int:
    """Runs or goes on with the evaluation in `folder`; its exit code."""
    source = output_sources.find(options)
    benchmark = _benchmark(options, source.operation)
    settings = output_sources.settings(source, benchmark, options)
    if not (tasks := chosen(benchmark, settings)):
        raise UserError("no task fits", where="--split, --types", remedy="ask for less")
    maker = benchmark.maker(settings)
    identity = benchmark.identity(tasks)
    if (folder / SETTINGS).exists():
        opened(folder)  # which refuses other data
    open_folder(folder, settings, identity)
    logs.configure("rods-eval", "warning", folder=folder / LOGS)
    with StopRequest() as request, Ownership(folder, EPISODES, "rods-eval"):
        session = _Session(folder, source, maker, benchmark, tasks, lambda: request.asked)
        with closing(session.journal):
            session.run(options)
        return session.code(options.lost_share)


def _benchmark(options: Options, operation: Operation) -> Benchmark:
    """Whose tasks the options name."""
    if options.tasks is None:
        return named(options.benchmark)
    folders = filter(None, (*options.tasks.parents[:3], options.run))
    return TaskFile(
        {}, options.tasks, Environments(operation.sandbox, *folders, trust=options.trust)
    )


def _report(folder: Folder, /, *, as_json: Json = False) -> None:
    summary = scores.report(folder)
    print_result(as_json, summary, scores.lines(summary))


def _compare(before: Path, after: Path, /, *, as_json: Json = False) -> None:
    """Pairs two evaluations of the same tasks.

    Args:
        before: an evaluation's folder
        after: another's, of the same tasks
    """
    differences = scores.compare(before, after)
    print_result(as_json, differences, scores.compared_lines(differences))


def _suite(
    run: Path,
    /,
    *,
    benchmarks: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    start_url: str = "",
    end_url: str = "",
    options: Annotated[Options, Parameter(name="*")] = DEFAULTS,
    as_json: Json = False,
) -> int:
    """A run's start and end on benchmarks.

    Args:
        run: the run; its evaluations are kept in its folder eval/suite
        benchmarks: default: all
        start_url: a server that has the run's start; default: its checkpoints
        end_url: one that has its end
    """
    compared = suite.play(run, benchmarks, start_url, end_url, options, evaluate)
    print_result(as_json, compared, suite.lines(compared))
    return EXIT_REQUEUE if compared["incomplete"] else EXIT_OK


def _check(folder: Folder, /, *, as_json: Json = False) -> int:
    checked = scores.check(folder)
    print_result(as_json, checked, scores.checked_lines(checked))
    return EXIT_FAILED if checked["different"] else EXIT_OK


@dataclass
class _Session:
    """One start of an evaluation. `stopped`: why how many episodes were left out."""

    folder: Path
    source: Source
    maker: episodes.Maker
    benchmark: Benchmark
    chosen: Sequence[AnyTask]
    asked: Callable[[], bool]
    stopped: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.journal = Journal(self.folder)
        self.settings = self.maker.settings
        self.expected = len(self.chosen) * self.settings.samples
        self._last_line = time.monotonic()

    def run(self, options: Options) -> None:
        """Plays what is left, with a line to the model that plays the user, or embeds texts, where
        one does."""
        if self.settings.search:
            self.maker.search_by(
                handed_on(options.search_key_env), options.search_url, options.patience
            )
        beside = "user" if self.settings.user else "encoder" if self.settings.encoder else ""
        if beside:
            with ModelThread(partial(self._beside, beside, options)) as self.maker.line:
                self._play(options)
        else:
            self._play(options)

    @asynccontextmanager
    async def _beside(self, role: str, options: Options) -> AsyncIterator[Client]:
        endpoint = output_sources.served_beside(role, options)
        async with UsageLog(self.folder, role) as usage, Client([endpoint], sink=usage) as client:
            yield client

    def _play(self, options: Options) -> None:
        source = self.source
        in_flight = options.in_flight
        left = slots(self.benchmark, self.chosen, self.settings.samples, journalled(self.folder))
        if source.recorded:
            if left:
                self._describe(None)
            self._take()
        elif left and source.kind == "endpoint":
            asyncio.run(self._ask(left, in_flight))
        elif left:
            from rods.trainer.engines.local import LocalEngine  # torch only where weights are

            limits = Rollouts(
                temperature=max(self.settings.temperature, COLDEST),
                top_p=self.settings.top_p,
                max_reply_tokens=self.settings.max_tokens,
                max_context_tokens=options.max_context,
            )
            engine = LocalEngine.load_alone(
                source.path, limits, source.operation, output_sources.policy(self.settings)
            )
            self._describe(cards.template_hash(engine.chat.tokenizer.chat_template))
            episodes.play_batches(engine, self.maker, left, in_flight, self._done, self.asked)

    def code(self, share: float) -> int:
        """The exit code of this start; says what is left out and why on standard error."""
        done = len(self.journal.done)
        left = self.expected - done
        for reason, count in self.stopped.most_common(5):
            complain("rods-eval", f"{count} episodes left out: {reason}")
        if complete(done, lost(self.folder).total(), self.expected, share):
            return EXIT_OK
        if self.source.recorded:
            complain("rods-eval", f"the recorded outputs lack {left} of {self.expected} episodes")
            return EXIT_FAILED
        complain(
            "rods-eval", f"{left} of {self.expected} episodes are left; the same command goes on"
        )
        return EXIT_REQUEUE

    def _describe(self, template: str | None) -> None:
        """Puts the card on record, before the first episode that it is about."""
        settings = self.settings
        recorded = self.source.recorded
        sampling = {
            name: getattr(settings, name) for name in ("temperature", "top_p", "max_tokens")
        }
        card = cards.card(
            self.chosen,
            settings.part,
            [] if recorded else [cards.shown(self.maker.job(task)) for task in self.chosen],
            history="recorded"
            if recorded
            else "tokens"
            if self.source.kind == "weights"
            else "parts"
            if settings.served
            else "messages",
            template=template,
            random_seeds={} if recorded else {"rollouts": episodes.RANDOM_SEED},
            sampling={"samples_per_task": settings.samples, **sampling},
            user=settings.user,
            encoder=settings.encoder,
        )
        self.journal.describe(card)

    async def _ask(self, left: episodes.Slots, in_flight: int) -> None:
        endpoint = self.source.endpoint
        assert endpoint is not None
        async with UsageLog(self.folder, "evaluation") as usage:
            budget = Budget(self.source.budgets, tokens=usage.tokens, requests=usage.requests)
            async with Client([endpoint], budget=budget, sink=usage) as client:
                servers = [base for status in client.status() for base in status["servers"]]
                ours = self.settings.protocol not in ("official", "native")
                self._describe(
                    await episodes.rendered_template(endpoint.model, servers, keeps_reasoning=ours)
                )
                replies = partial(episodes.EndpointReplies, client, self.maker)
                self.stopped = await episodes.play(
                    replies, self.maker, left, in_flight, self._done, self.asked
                )

    def _take(self) -> None:
        """Records outputs that exist. Traces may hold several episodes of a task: the first
        `samples` count."""
        counted: Counter[str] = Counter()
        by_name = {
            self.benchmark.identifier(task): scripted(task, "a file of outputs")
            for task in self.chosen
        }
        entries = packaged(self.benchmark, self.source.path).recorded(
            self.source.path, by_name, self.settings.form
        )
        for task, result, end in list(entries):  # all are looked at before one is taken
            if counted[task] < self.settings.samples:
                self._done(Episode(task, counted[task], self.settings.form, result, end))
            counted[task] += 1

    def _done(self, episode: Episode) -> None:
        self.journal.add(episode)
        if time.monotonic() - self._last_line >= SAY_SECONDS:
            self._last_line = time.monotonic()
            say(f"rods-eval: {len(self.journal.done)} of {self.expected} episodes", aside=True)
