"""`/metrics` for Prometheus: totals rebuilt from the run's logs at every start, so that no restart zeroes one, and
gauges of this process.

Counting is by the records themselves: whatever is on the disk counts once, also what an earlier daemon wrote. The logs
are read on when somebody asks.
"""

import asyncio
import tomllib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from rods.buffers.daemon_log import DaemonTotals
from rods.buffers.run.runfolder import EXPANDED, REJECTED, SEEDS, usage
from rods.buffers.state import RunState
from rods.files import explained

HELP: Mapping[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Metrics:
    """The metrics of one daemon, whose own gauges `own` gives by name. `text` may be asked for by several at once."""

    def __init__(self, state: RunState, own: Callable[[], Mapping[str, int]]) -> None:
        self.state, self.own = state, own
        self._tails = {name: state.follow(name) for name in (SEEDS, EXPANDED, REJECTED, usage("daemon"))}
        self._totals: defaultdict[tuple[str, str], float] = defaultdict(float)  # by metric and labels
        self._daemon = DaemonTotals()
        self._reading = asyncio.Lock()

    async def text(self) -> str:
        """All of them in Prometheus's text format (version 0.0.4)."""
        async with self._reading:
            await asyncio.to_thread(self._read_on)
        samples = defaultdict[str, list[str]](list)
        for (name, labels), value in (*self._totals.items(), *self._counted()):
            samples[name].append(f"{name}{labels} {value:.12g}")
        lines = list[str]()
        for name, about in HELP.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}", *sorted(samples[name])]
        return "\n".join(lines) + "\n"

    def _read_on(self) -> None:
        for log in (SEEDS, REJECTED):
            for record in self._tails[log].records():
                self._daemon.apply(record)
        self._totals["rods_variants_total", ""] += sum(1 for _ in self._tails[EXPANDED].records())
        for call in self._tails[usage("daemon")].records():
            name = call["backbone"]
            made = _written(stage=call["stage"], endpoint=name, outcome=call["outcome"])
            self._totals["rods_model_calls_total", made] += 1
            for direction in ("in", "out"):
                used = call[f"tokens_{direction}"]
                self._totals["rods_model_tokens_total", _written(endpoint=name, direction=direction)] += used
            self._totals["rods_model_seconds_total", _written(endpoint=name)] += call["seconds"]

    def _counted(self) -> Iterator[tuple[tuple[str, str], float]]:
        if picks := self._daemon.picks.total():
            yield ("rods_picks_total", ""), picks
        for outcome, count in self._daemon.outcomes.items():
            yield ("rods_picks_finished_total", _written(outcome=outcome)), count
        for (stage, error), alike in self._daemon.failures.items():
            yield ("rods_rejections_total", _written(stage=stage, error=error)), alike.count
        for name, value in {"rods_epoch": self.state.epoch, **self.own()}.items():
            yield (name, ""), value
        for name, gauge in self.state.gauges().items():
            room, _, label = name.partition("/")
            if room == "staging":
                yield ("rods_staged_variants", ""), gauge
            else:
                yield (f"rods_{room}_tasks", _written(**{"zone" if room == "zone" else "origin": label})), gauge


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
        with explained("cannot listen there", f"{host}:{port}", "choose another operation.metrics_port"):
            await web.TCPSite(runner, host, port).start()
        yield
    finally:
        await runner.cleanup()


def _written(**labels: str) -> str:
    """The labels of a sample; a backslash, a quote and a line's end within a value are escaped."""
    return "{" + ",".join(f'{name}="{value.translate(ESCAPED)}"' for name, value in labels.items()) + "}"
