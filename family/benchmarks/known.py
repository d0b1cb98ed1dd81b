"""A benchmark held to itself: policies whose scores are known beforehand play its items and are
scored as any other.

*nothing* answers every turn in words, *truth* makes the ground-truth calls and answers, *fault*
makes them with a fault that fails the item. They must get 0, 1 and 0, except where the benchmark
says why not (`Benchmark.due`). Items of which nobody knows a ground truth are counted, and not
played."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, get_args

from rods.episode.drivers import Job
from rods.episode.engine import NeedText, Reply
from rods.evaluation.scoring import by_task
from rods.family.benchmarks import episodes
from rods.family.benchmarks.contract import Benchmark, Known, slots
from rods.family.benchmarks.folder import Journal, Settings, open_folder
from rods.family.benchmarks.folder import episodes as journalled
from rods.tasks import AnyTask

SHOWN = 20  # items that got something else, which are listed


class KnownReplies(episodes.Replies):
    """The replies of a known policy in one episode: its calls first, then a sentence."""

    def __init__(self, benchmark: Benchmark, policy: Known, job: Job, sample: int) -> None:
        self.job = job
        self._benchmark = benchmark
        self._policy = policy
        self._turn = -1

    async def reply(self, need: NeedText) -> Reply:
        task = self.job.task
        dialect = self.job.dialect
        calls = (
            self._benchmark.known(task, need.turn, self._policy) if need.turn != self._turn else ()
        )
        self._turn = need.turn
        text = calls if isinstance(calls, str) else "I cannot do that."
        return Reply(
            dialect.write(calls) if calls and not isinstance(calls, str) else dialect.answer(text)
        )


def check(benchmark: Benchmark, settings: Settings, tasks: Sequence[AnyTask]) -> dict[str, Any]:
    """What the known policies got: {"items", "unknown", "rows": [{"policy", "due", "why", "items",
    "as_due"}, …], "different": [[policy, item, measure, due, got], …]}."""
    playable = [task for task in tasks if benchmark.known(task, 0, "truth") is not None]
    scored = [task for task in playable if benchmark.due(task, "nothing", settings.form)[0]]
    items = {benchmark.identifier(task): task for task in scored}
    rows: dict[tuple[str, str, str], Counter[bool]] = {}
    different: list[list[Any]] = []
    for policy in get_args(Known):
        got = _played(benchmark, settings, playable, policy)
        for name, task in items.items():
            due, why = benchmark.due(task, policy, settings.form)
            wrong = [m for m, value in due.items() if abs(got[m].get(name, -1.0) - value) > 1e-9]
            verdict = due[benchmark.measures[0]]
            verdict_due = f"{verdict:g}" if verdict in (0, 1) else "a share"
            rows.setdefault((policy, verdict_due, why), Counter())[not wrong] += 1
            different += [
                [policy, name, measure, due[measure], got[measure].get(name)] for measure in wrong
            ]
    return {
        "benchmark": benchmark.name,
        "items": len(items),
        "unknown": len(tasks) - len(playable),
        "rows": [
            {
                "policy": policy,
                "due": due,
                "why": why,
                "items": counts.total(),
                "as_due": counts[True],
            }
            for (policy, due, why), counts in rows.items()
        ],
        "different": different,
    }


def _played(
    benchmark: Benchmark, settings: Settings, tasks: Sequence[AnyTask], policy: Known
) -> Mapping[str, Mapping[str, float]]:
    """The scores of `policy` by measure and item, through a journal as in any evaluation."""
    maker = benchmark.maker(settings)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / policy
        open_folder(folder, settings, benchmark.identity([]))
        with closing(Journal(folder)) as journal:
            replies = partial(KnownReplies, benchmark, policy)
            asyncio.run(
                episodes.play(
                    replies, maker, slots(benchmark, tasks, 1), 64, journal.add, lambda: False
                )
            )
        played = [
            (episode.task, benchmark.score(episode).measures) for episode in journalled(folder)
        ]
        return by_task(benchmark.measures, played)


def lines(checked: Mapping[str, Any]) -> Iterator[str]:
    """`check` as text."""
    yield f"{checked['benchmark']}: {checked['items']} items by three known policies"
    for row in checked["rows"]:
        why = f" ({row['why']})" if row["why"] else ""
        yield (
            f"  {row['policy']:8} due {row['due']:7} {row['as_due']:5} of {row['items']:5} got "
            f"it{why}"
        )
    if checked["unknown"]:
        yield (
            f"  {checked['unknown']} items have no ground truth that calls could make; they were "
            f"left out"
        )
    for policy, name, measure, due, got in checked["different"][:SHOWN]:
        yield f"  DIFFERS {policy} {name}: {measure} is {got}, and {due:g} is due"
