"""`rods-eval suite RUN`: the policies of a run's start and end on benchmarks, in pairs, as one
table with cards.

Each benchmark and policy has an evaluation of its own in eval/suite/<benchmark>/ of the run, which
the same command goes on with: a suite that was stopped ends with the table of one that was not. A
benchmark that cannot be played so is left out of the table and named, with the reason. The table is
kept in eval/suite/table.json, for the page.

A benchmark.toml may declare a weighted `total` over kinds of items of several; it is made where
each of them was played in whole, and else it is said what lacks."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rods.buffers.log.tail import read
from rods.buffers.run import runfolder
from rods.buffers.run.run import Run
from rods.buffers.usage import Spent
from rods.canonical import JsonMapping, JsonObject
from rods.errors import EXIT_OK, UserError
from rods.evaluation import card, heldout
from rods.family.benchmarks import scores, table
from rods.family.benchmarks.benchmarks import declared_benchmarks, named
from rods.family.benchmarks.folder import described
from rods.family.benchmarks.guard import overlaps
from rods.family.benchmarks.output_sources import Options

PLACES = ("start", "end")


def play(
    run: Path,
    names: Sequence[str],
    start_url: str,
    end_url: str,
    options: Options,
    evaluate: Callable[[Path, Options], int],
) -> JsonObject:
    """Plays what is left of the suite by `evaluate(folder, options)`, and compares: {"run", "rows":
    by benchmark as of `scores.compare`, with `cards` and `usage`, "left_out": by benchmark why,
    "totals", "overlaps", "incomplete"}. Raises UserError."""
    for option in (
        "url",
        "config",
        "weights",
        "run",
        "recorded",
        "benchmark",
        "tasks",
        "types",
        "step",
    ):
        if getattr(options, option):
            raise UserError(
                f"--{option} is not for a suite",
                where="the command line",
                remedy="the policies are the run's: its checkpoints, or --start-url and "
                "--end-url with --model",
            )
    if bool(start_url) != bool(end_url):
        raise UserError(
            "start and end are both served, or neither",
            where="--start-url, --end-url",
            remedy="give both",
        )
    policies = _policies(run, start_url, end_url, options)
    compared: JsonObject = {
        "run": str(run),
        "rows": {},
        "left_out": {},
        "overlaps": {},
        "incomplete": [],
    }
    trained = Run.open(run)
    for name in names or declared_benchmarks():
        folders = [run / table.SUITE / name / place for place, _ in policies]
        try:
            codes: list[int] = []
            benchmark = named(name)
            for folder, (_, policy) in zip(folders, policies, strict=True):
                codes.append(evaluate(folder, replace(policy, benchmark=name)))
                if codes[-1] != EXIT_OK:
                    break
        except UserError as error:
            if names:
                raise
            compared["left_out"][name] = str(error)
            continue
        if any(codes):
            compared["incomplete"].append(name)
            break
        items = Counter(map(benchmark.kind, benchmark.tasks()))
        compared["rows"][name] = {
            **scores.compare(*folders),
            "cards": [described(folder) for folder in folders],
            "usage": [asdict(_spent(folder)) for folder in folders],
            "items": dict(items),
        }
        compared["overlaps"][name] = overlaps(trained, benchmark)
    compared["totals"] = totals(compared["rows"])
    table.write(run, compared["rows"], [*notes(compared)])
    return compared


def _policies(
    run: Path, start_url: str, end_url: str, options: Options
) -> list[tuple[str, Options]]:
    """Folder and options of both."""
    if start_url:
        return [
            (place, replace(options, url=(url,)))
            for place, url in zip(PLACES, (start_url, end_url), strict=True)
        ]
    policies = []
    for which in ("start", "end"):
        _, checkpoint = heldout.checkpoint(run, which)
        at = checkpoint.position
        policies.append(
            (f"step_{at.step:08d}.a{at.attempt}", replace(options, run=run, step=at.step))
        )
    if policies[0][0] == policies[1][0]:
        raise UserError("its start is its end", where=run, remedy="train it first")
    return policies


def _spent(folder: Path) -> Spent:
    """What the calls of servers have cost in an evaluation."""
    spent = Spent()
    for asked in ("evaluation", "user", "encoder"):  # the policy, and what is asked beside it
        for call in read(folder / runfolder.usage(asked)):
            spent.add(call)
    return spent


def totals(rows: Mapping[str, JsonMapping]) -> JsonObject:
    """The weighted totals that benchmarks declare: {name: {"before", "after"} as shares, or
    {"lacks": kinds}}. What was played in part alone lacks, too; each row's `items` says how many
    there are of a kind."""
    kinds = {
        kind: row
        for compared in rows.values()
        for kind, row in compared["kinds"].items()
        if row["after"]["tasks"] == compared["items"].get(kind)
    }
    sums = {}
    for declared in declared_benchmarks().values():
        if total := declared.get("total"):
            names = [
                name
                for part in total["parts"]
                for name in _names(part.get("mean") or part["pooled"])
            ]
            lacking = [name for name in names if name not in kinds]
            sums[total["name"]] = (
                {"lacks": lacking}
                if lacking
                else {
                    place: weighted(total["parts"], kinds, place) for place in ("before", "after")
                }
            )
    return sums


def weighted(parts: Sequence[JsonMapping], kinds: Mapping[str, JsonMapping], place: str) -> float:
    """The mean of parts by their weights, of what `kinds` have in `place`."""

    def mean(listed: Any) -> float:
        if isinstance(listed, str):
            return float(kinds[listed][place]["mean"])
        return math.fsum(map(mean, listed)) / len(listed)

    def pooled(listed: Sequence[str]) -> float:
        rows = [kinds[name][place] for name in listed]
        return math.fsum(row["mean"] * row["tasks"] for row in rows) / math.fsum(
            row["tasks"] for row in rows
        )

    values = [
        part["weight"] * (mean(part["mean"]) if "mean" in part else pooled(part["pooled"]))
        for part in parts
    ]
    return math.fsum(values) / math.fsum(part["weight"] for part in parts)


def _names(listed: Any) -> list[str]:
    return (
        [listed] if isinstance(listed, str) else [name for part in listed for name in _names(part)]
    )


def lines(compared: JsonMapping) -> Iterator[str]:
    """The suite as text."""
    width = max([24, *(len(kind) for row in compared["rows"].values() for kind in row["kinds"])])
    how = "start and end, in percent, with 95 % intervals; differences in pairs by item"
    yield f"{compared['run']}: {how}"
    yield f"\n{'':{width + 2}}{'items':>6}  {'start':^22}  {'end':^22}  {'end less start':^24}"
    for name, row in compared["rows"].items():
        yield name
        for kind, pair in row["kinds"].items():
            cells = "  ".join(scores.cell(pair[place]) for place in ("before", "after"))
            change = scores.cell(pair["difference"], "+")
            yield f"  {kind:{width}}{pair['difference']['tasks']:>6}  {cells}  {change}"
    for name, row in compared["rows"].items():
        yield f"\n{name}"
        yield from card.lines(row["cards"][-1], row["kinds"]["all"]["difference"]["tasks"])
        if any(spent["calls"] for spent in row["usage"]):
            calls, read_, written = (
                sum(u[key] for u in row["usage"]) for key in ("calls", "tokens_in", "tokens_out")
            )
            yield (
                f"  cost: {calls} calls of servers, {read_} prompt tokens, {written} tokens of "
                f"replies"
            )
    yield ""
    yield from notes(compared)


def notes(compared: JsonMapping) -> Iterator[str]:
    """What is to be known of the table: totals, and what is not alike, overlaps or is left out."""
    for name, total in compared["totals"].items():
        if "lacks" in total:
            yield (
                f"no total of {name}: {', '.join(total['lacks'])} were not played, or not in whole"
            )
        else:
            yield (
                f"total of {name}: {100 * total['before']:.2f} at the start, "
                f"{100 * total['after']:.2f} at the end"
            )
    for name, row in compared["rows"].items():
        if row["left_out"]:
            yield (
                f"{name}: {row['left_out']} items were played by one of both alone, and are left "
                f"out"
            )
        if row["cards_differ"]:
            yield f"{name}: NOT ALIKE: start and end differ in {', '.join(row['cards_differ'])}"
        yield from (f"{name}: {line}" for line in scores.lost_lines(row))
        if shared := compared["overlaps"][name]:
            yield (
                f"{name}: OVERLAP: {shared} of its items match tasks that the run trains on, by "
                f"words or by calls"
            )
    for name, why in compared["left_out"].items():
        yield f"left out: {name}: {why}"
    if compared["incomplete"]:
        yield f"INCOMPLETE: {', '.join(compared['incomplete'])}; the same command goes on"
