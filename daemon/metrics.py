"""`/metrics` for Prometheus: totals rebuilt from the run's logs at every start, so that no restart zeroes one, and
gauges of this process.

Counting is by the records themselves: whatever is on the disk counts once, also what an earlier daemon wrote. The logs
are read on when somebody asks.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from rods.buffers.daemon_log import DaemonTotals
from rods.buffers.run.runfolder import EXPANDED, REJECTED, SEEDS, usage
from rods.buffers.state import RunState
from rods.errors import UserError

if TYPE_CHECKING:
    from aiohttp import web

Labels = tuple[tuple[str, str], ...]
HELP: Mapping[str, tuple[str, str]] = {
    "rods_step": ("gauge", "Newest step of the trainer that was read."),
    "rods_epoch": ("gauge", "Latest epoch; -1 before the first merge."),
    "rods_considered_step": ("gauge", "Newest step whose tasks were considered as seeds."),
    "rods_zone_tasks": ("gauge", "Active tasks by the zone of their latest group."),
    "rods_pool_tasks": ("gauge", "Tasks of the pool by origin, and variants that have left it."),
    "rods_staged_variants": ("gauge", "Accepted variants that no merge has decided about."),
    "rods_queued_seeds": ("gauge", "Picks that wait for somebody free."),
    "rods_seeds_in_flight": ("gauge", "Picks and failures that are worked on."),
    "rods_picks_total": ("counter", "Seeds that were picked."),
    "rods_picks_finished_total": ("counter", "Picks that are done, by outcome."),
    "rods_variants_total": ("counter", "Variants that were accepted."),
    "rods_rejections_total": ("counter", "Candidates that failed, by stage and type of error."),
    "rods_model_calls_total": ("counter", "Calls of language models, by stage, endpoint and outcome."),
    "rods_model_tokens_total": ("counter", "Tokens of these calls, by endpoint and direction."),
    "rods_model_seconds_total": ("counter", "Seconds that these calls took, added up, by endpoint."),
}


class Metrics:
    """The metrics of one daemon, whose own gauges `own` gives by name. `text` may be asked for by several at once."""

    def __init__(self, state: RunState, own: Callable[[], Mapping[str, int]]) -> None:
        self.state, self.own = state, own
        self._tails = {name: state.follow(name) for name in (SEEDS, EXPANDED, REJECTED, usage("daemon"))}
        self._totals: defaultdict[tuple[str, Labels], float] = defaultdict(int)
        self._daemon = DaemonTotals()
        self._reading = asyncio.Lock()

    async def text(self) -> str:
        """All of them in Prometheus's text format (version 0.0.4)."""
        async with self._reading:
            await asyncio.to_thread(self._read_on)
        samples: dict[str, list[tuple[Labels, float]]] = {}
        for (name, labels), value in (*self._totals.items(), *self._counted()):
            samples.setdefault(name, []).append((labels, value))
        lines = []
        for name, (kind, about) in HELP.items():
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{_written(labels)} {value:.12g}" for labels, value in sorted(samples.get(name, ()))]
        return "\n".join(lines) + "\n"

    def _read_on(self) -> None:
        for log in (SEEDS, REJECTED):
            for record in self._tails[log].records():
                self._daemon.apply(record)
        self._count("rods_variants_total", sum(1 for _ in self._tails[EXPANDED].records()))
        for call in self._tails[usage("daemon")].records():
            name = call["backbone"]
            self._count("rods_model_calls_total", stage=call["stage"], endpoint=name, outcome=call["outcome"])
            self._count("rods_model_tokens_total", call["tokens_in"], endpoint=name, direction="in")
            self._count("rods_model_tokens_total", call["tokens_out"], endpoint=name, direction="out")
            self._count("rods_model_seconds_total", call["seconds"], endpoint=name)

    def _count(self, metric: str, by: float = 1, **labels: str) -> None:
        self._totals[metric, tuple(labels.items())] += by

    def _counted(self) -> Iterator[tuple[tuple[str, Labels], float]]:
        if picks := self._daemon.picks.total():
            yield ("rods_picks_total", ()), picks
        for outcome, count in self._daemon.outcomes.items():
            yield ("rods_picks_finished_total", (("outcome", outcome),)), count
        for (stage, error), alike in self._daemon.failures.items():
            yield ("rods_rejections_total", (("stage", stage), ("error", error))), alike.count
        yield ("rods_epoch", ()), self.state.epoch
        for name, value in self.own().items():
            yield (name, ()), value
        for name, gauge in self.state.gauges().items():
            room, _, label = name.partition("/")
            if room == "staging":
                yield ("rods_staged_variants", ()), gauge
            else:
                yield (f"rods_{room}_tasks", (("zone" if room == "zone" else "origin", label),)), gauge


@asynccontextmanager
async def serving(state: RunState, own: Callable[[], Mapping[str, int]]) -> AsyncIterator[None]:
    """Answers `GET /metrics` at `operation.metrics_host` and `metrics_port` meanwhile; does nothing where that is 0.
    Raises UserError where the port is taken."""
    operation = state.run.config.operation
    host, port = operation.metrics_host, operation.metrics_port
    if not port:
        yield
        return
    from aiohttp import web

    metrics = Metrics(state, own)

    async def answer(request: web.Request) -> web.Response:
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=(await metrics.text()).encode(), headers=headers)

    application = web.Application()
    application.router.add_get("/metrics", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            what, remedy = f"cannot listen there ({error.strerror})", "choose another operation.metrics_port"
            raise UserError(what, where=f"{host}:{port}", remedy=remedy) from error
        yield
    finally:
        await runner.cleanup()


def _written(labels: Labels) -> str:
    """The labels of a sample; a backslash, a quote and a line's end within a value are escaped."""
    escaped = {name: value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for name, value in labels}
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}" if labels else ""
