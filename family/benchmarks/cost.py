"""What a suite would cost: items, calls, tokens of prompts and replies, and with measured rates the
hours of GPUs.

Where an evaluation is on record, its calls are scaled to all items. Else the policy that makes the
ground-truth calls plays all items in memory, one step a turn and a sentence after it, and its
prompts and replies are counted with four characters a token: what a policy costs that needs no
second try. Others take more."""

import asyncio
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rods.buffers.log.tail import read
from rods.buffers.run import runfolder
from rods.episode.drivers import Job
from rods.episode.engine import NeedText, Reply
from rods.errors import UserError
from rods.family.benchmarks import table
from rods.family.benchmarks.benchmarks import (
    Benchmark,
    chosen,
    declared_benchmarks,
    kinds,
    named,
    opened,
    slots,
)
from rods.family.benchmarks.episodes import NativeCalls, play
from rods.family.benchmarks.folder import SETTINGS, Settings
from rods.family.benchmarks.folder import episodes as journalled
from rods.family.benchmarks.known import KnownReplies
from rods.files import read_toml

CHARACTERS = 4  # a token, where nothing is recorded
TRUTH = "the ground truth's calls, four characters a token"
RATES = "prompt_tokens_per_second", "generated_tokens_per_second"  # of a model, beside its `gpus`


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one policy on one benchmark. `longest`: tokens of the largest prompt; `source`: how it is
    known."""

    items: int
    calls: float
    prompt_tokens: float
    reply_tokens: float
    longest: float
    source: str


def suite(
    folders: Sequence[Path],
    names: Sequence[str],
    settings: Mapping[str, Any],
    reply_tokens: int,
    rates: Path | None,
) -> dict[str, Any]:
    """{"benchmarks": costs of one policy by name, "left_out": why some cannot be played so,
    "models": hours of `rates` by model, for two policies}. `settings`: fields of `Settings`;
    `reply_tokens`: of a reply where nothing is on record, 0: those of its calls. Raises
    UserError."""
    recorded = _recorded(folders)
    told: dict[str, Any] = {"benchmarks": {}, "left_out": {}, "models": {}}
    for name in names or declared_benchmarks():
        benchmark = named(name)
        own = Settings({}, **{"part": benchmark.part, "types": kinds(benchmark), **settings})
        try:
            if not own.types:
                raise UserError(
                    "what its policies do is not known without a search",
                    where=name,
                    remedy="leave it out",
                )
            cost = _of_evaluations(benchmark, own, recorded.get(name, ()))
            told["benchmarks"][name] = cost or _of_prompts(benchmark, own, reply_tokens)
        except UserError as error:
            if names:
                raise
            told["left_out"][name] = str(error)
    if rates is not None:
        told["models"] = _hours(rates, [*told["benchmarks"].values()])
    return told


def _recorded(folders: Sequence[Path]) -> dict[str, list[Path]]:
    """Evaluations by benchmark: each of `folders`, or those of the suite of a run."""
    found: dict[str, list[Path]] = {}
    for folder in folders:
        parts = (
            [folder]
            if (folder / SETTINGS).exists()
            else [*(folder / table.SUITE).glob(f"*/*/{SETTINGS}")]
        )
        if not parts:
            remedy = (
                "name an evaluation, or a run whose suite was played; without a folder prompts are "
                "counted"
            )
            raise UserError("is no evaluation and has no suite", where=str(folder), remedy=remedy)
        for part in parts:
            place = part if part.is_dir() else part.parent
            found.setdefault(opened(place)[-1].name, []).append(place)
    return found


def _of_evaluations(
    benchmark: Benchmark, settings: Settings, folders: Sequence[Path]
) -> Cost | None:
    """Scaled from what is on record there; None where no call of a server is."""
    calls = [call for folder in folders for call in read(folder / runfolder.usage("evaluation"))]
    played = sum(1 for folder in folders for _ in journalled(folder))
    if not calls or not played:
        return None
    items = len(chosen(benchmark, settings)) * settings.samples
    read_, written = (
        sum(call[name] for call in calls) * items / played for name in ("tokens_in", "tokens_out")
    )
    longest = max(call["tokens_in"] for call in calls)
    return Cost(
        items,
        len(calls) * items / played,
        read_,
        written,
        longest,
        f"from {played:,} episodes on record",
    )


def _of_prompts(benchmark: Benchmark, settings: Settings, reply_tokens: int) -> Cost:
    maker = benchmark.maker(settings)
    tasks = chosen(benchmark, settings)
    counted: Counter[str] = Counter()
    replies = partial(_Counted, benchmark, counted)
    waiting = slots(benchmark, tasks, settings.samples)
    items = len(waiting)
    asyncio.run(play(replies, maker, waiting, 64, lambda episode: None, lambda: False))
    said = counted["calls"] * reply_tokens or counted["reply"] / CHARACTERS
    source = f"{TRUTH}, {reply_tokens} tokens a reply" if reply_tokens else TRUTH
    return Cost(
        items,
        counted["calls"],
        counted["prompt"] / CHARACTERS,
        said,
        counted["longest"] / CHARACTERS,
        source,
    )


class _Counted(KnownReplies):
    """The ground truth's replies, whose calls and characters are added to `counted`."""

    def __init__(self, benchmark: Benchmark, counted: Counter[str], job: Job, sample: int) -> None:
        super().__init__(benchmark, "truth", job, sample)
        self._counted = counted
        dialect = job.dialect
        tools = dialect.tools(job.task.tools_at(0), ()) if isinstance(dialect, NativeCalls) else ""
        self._tools = len(str(tools))

    async def reply(self, need: NeedText) -> Reply:
        reply = await super().reply(need)
        prompt = self._tools + sum(len(message.content) for message in need.messages)
        self._counted.update(calls=1, prompt=prompt, reply=len(reply.text))
        self._counted["longest"] = max(self._counted["longest"], prompt)
        return reply


def _hours(file: Path, costs: Sequence[Cost]) -> dict[str, dict[str, float]]:
    """Of each model in a file of rates (docs/plan.md), for two policies: prompts, then replies, as
    `rods plan` adds."""
    content = read_toml(file)
    made: dict[str, dict[str, float]] = {}
    for key in content:
        model, _, kind = key.rpartition(".")
        if kind != RATES[0]:
            continue
        fast, slow, gpus = (content.get(f"{model}.{name}", 0) for name in (*RATES, "gpus"))
        gpus = gpus or 1  # as `rods plan` assumes
        if not all(
            isinstance(rate, int | float) and 0 < rate < math.inf for rate in (fast, slow, gpus)
        ):
            what = f"has no {' and '.join(RATES)} above 0 of {model}"
            raise UserError(what, where=str(file), remedy="measure both with `rods doctor --rate`")
        seconds = 2 * sum(cost.prompt_tokens / fast + cost.reply_tokens / slow for cost in costs)
        made[model] = {"hours": seconds / 3600, "gpus": gpus, "gpu_hours": gpus * seconds / 3600}
    if not made:
        raise UserError(
            "has no rate of a model",
            where=str(file),
            remedy="`rods doctor --rate URL MODEL > FILE`",
        )
    return made


def lines(told: Mapping[str, Any]) -> Iterator[str]:
    """The cost as text."""
    yield "one policy; a suite plays two, the start and the end of a run"
    yield (
        f"{'':18}{'items':>8}{'calls':>10}{'prompt tokens':>16}{'reply tokens':>14}{'longest prompt':>16}"
    )
    for name, cost in told["benchmarks"].items():
        counts = f"{cost.items:>8,}{cost.calls:>10,.0f}{cost.prompt_tokens:>16,.0f}{cost.reply_tokens:>14,.0f}"
        yield f"{name:18}{counts}{cost.longest:>16,.0f}  ({cost.source})"
    for name, hours in told["models"].items():
        on = f"hours on {hours['gpus']:g} GPUs, {hours['gpu_hours']:.2f} GPU-hours"
        yield f"both policies, {name}: {hours['hours']:.2f} {on}"
    for name, why in told["left_out"].items():
        yield f"left out: {name}: {why}"
