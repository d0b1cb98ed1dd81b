"""`rods cost`: what a run's variants cost in calls of language models, by stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.output import RunFolder, print_json, print_lines
from rods.commands import Json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from buffers.usage import Costs


def cost(run: RunFolder, /, *, as_json: Json = False) -> None:
    """Show calls, tokens and time per accepted variant by stage, with what failed and without."""
    from buffers.run.run import Run
    from buffers.usage import costs

    Run.open(run)
    found = costs(run)
    if as_json:
        print_json(found.as_json())
    else:
        print_lines(lines(found))


def lines(found: Costs) -> Iterator[str]:
    """The tables for people."""
    if found.played:
        yield f"{'models that play':26} {'calls':>8} {'failed':>8} {'tokens in':>11} {'out':>9} {'seconds':>9}"
        for role, spent in sorted(found.played.items(), key=lambda one: -one[1].calls):
            row = f"{role:26} {spent.calls:8} {spent.failed:8} {spent.tokens_in:11} {spent.tokens_out:9}"
            yield f"{row} {spent.seconds:9.1f}"
        yield ""
    if not found.stages:
        yield "no language model has written for this run"
        return
    yield f"{found.accepted} variants accepted of {found.variants} that calls were made for"
    yield ""
    yield f"{'':26}    for each accepted variant, failures included   |  on its own path"
    yield f"{'stage':26} {'calls':>8} {'tokens in':>11} {'out':>8} {'seconds':>9}     | {'calls':>7} {'tokens in':>11}"
    for stage, spent in sorted(found.stages.items(), key=lambda one: -one[1].calls):
        every = spent.per(found.accepted or 1)
        row = f"{stage:26} {every['calls']:8.2f} {every['tokens_in']:11.0f} {every['tokens_out']:8.0f}"
        row += f" {every['seconds']:9.2f}     |"
        if (path := found.path.get(stage)) is not None:
            own = path.per(found.accepted)
            row += f" {own['calls']:7.2f} {own['tokens_in']:11.0f}"
        yield row
    summary = found.as_json()
    yield ""
    if found.accepted:
        yield (
            f"{summary['calls_per_accepted']} calls for an accepted variant, {summary['calls_on_the_path']} on its own "
            f"path; endpoints were busy for {summary['busy_seconds_per_accepted']} s of it (times their GPUs)"
        )
    else:
        yield "no variant is accepted yet: the figures are totals"
    for name, one in summary["endpoints"].items():
        yield f"endpoint {name}: {one['calls']} calls, busy for {one['busy_seconds']:.0f} s"
