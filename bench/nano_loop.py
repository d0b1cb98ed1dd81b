"""Does targeting pay? The loop and what it is compared with, trained by nano on desk tasks with
regions.

Claim: variants of boundary tasks gain more held-out progress than the same steps of reinforcement
learning spent otherwise. Anchors: the conditions of experiments/nano/conditions.toml, each of which
changes what its name says. Command: `python -m bench.nano_loop` (all conditions, ten random seeds,
two runs at a time); `--seeds 3`; `--only NAME …` (RODS is always among them); `--table` (no run,
only the table of what is there); `--quick` (a few steps, only to show that it runs).

For every random seed (of data, order, rollouts and daemon) each condition trains the same
warm-started policy on the same originals, by the two real processes, in lockstep and deterministic:
what a run gives does not depend on how busy the machine is. Each run is scored on the same held-out
tasks with the same draws, so differences are paired; intervals are of 95 % (Student's t), over the
random seeds.

A finished run is one line of experiments/nano/results.jsonl, and what has a line there is not run
again, unless its configuration has changed since. A run that was stopped goes on where it was
(runs/nano_loop).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from rods.buffers.run.run import Run
from rods.buffers.state import RunState
from rods.canonical import content_id
from rods.config import parse_config
from rods.console.verbs.up import LIBC, PR_SET_PDEATHSIG
from rods.errors import EXIT_REFUSED
from rods.evaluation.heldout import per_task, score_run
from rods.evaluation.scoring import Estimate, estimate
from rods.family.page.follower import Follower
from rods.family.page.report import figures
from rods.rules.zones import ZONES
from rods.trainer.nano import BATCHES

ROOT = Path(__file__).parent.parent
RUNS = ROOT / "runs"
ABOUT = ("paper", "against")  # what an entry says besides the changes
# for processes of a study that was killed, which end now
WAITS = 20
WAIT_SECONDS = 3.0
PARTS = ("all", "mastered", "boundary", "hopeless")  # of the held-out tasks
QUICK: dict[str, dict[str, Any]] = {
    "data": {"train": 6, "held_out": 6},
    "policy": {"warm_start_steps": 20},
    "training": {"steps": 2, "batch_tasks": 3},
}
Values = dict[str, Any]
Line = dict[str, Any]  # a finished run, as it stands in the results


class Study:
    """Conditions that are compared, in a folder under experiments/. Its conditions.toml names the
    `anchor`, whose configuration is the TOML file of that name, and says what each condition
    changes there, in the order of the table: `paper` is the average that the paper reports for it,
    `against` the condition that it is compared with where that is not the anchor. Finished runs are
    lines of its results.jsonl."""

    seeds = 10  # random seeds a condition, where the command names no number

    def __init__(self, folder: Path, runs: str) -> None:
        self.folder = folder
        self.runs = RUNS / runs
        known: Values = tomllib.loads((folder / "conditions.toml").read_text(encoding="utf-8"))
        self.anchor: str = known.pop("anchor")
        self.conditions: dict[str, Values] = known
        self.results = folder / "results.jsonl"

    def against(self, name: str) -> str:
        """What a condition is compared with."""
        other: str = self.conditions[name].get("against", self.anchor)
        return other

    def base(self, name: str) -> Path:
        """The configuration that a condition changes."""
        return self.folder / f"{self.anchor.lower().replace(' ', '_')}.toml"

    def changes(self, name: str) -> Sequence[Values]:
        """What a condition changes there."""
        return [self.conditions[name]]

    def configuration(
        self, name: str, seed: int, more: Mapping[str, Values] | None = None
    ) -> Values:
        """The configuration of one run."""
        values: Values = tomllib.loads(self.base(name).read_text(encoding="utf-8"))
        own: dict[str, Values] = {
            "random_seeds": {"order": seed, "rollouts": seed, "daemon": seed},
            "data": {"random_seed": seed},
        }
        for part in (own, *self.changes(name), more or {}):
            for section, keys in part.items():
                if section not in ABOUT:
                    values[section] = {**values.get(section, {}), **keys}
        return {**values, "sync": "lockstep"}

    def path(self, name: str, seed: int) -> Path:
        """The folder of a run."""
        return self.runs / f"{seed}-{name.replace(' ', '_')}"

    def warm_starts(self) -> Iterator[Values]:
        """A configuration of each policy that runs begin with."""
        yield self.configuration(self.anchor, 1)

    def recorded(self, names: Container[str] | None = None) -> list[Line]:
        """The finished runs, of these conditions or all, whose configuration is still that of
        today, of the latest warm start alone."""
        known = self.conditions if names is None else names
        text = self.results.read_text() if self.results.exists() else ""
        lines: list[Line] = [json.loads(line) for line in text.splitlines()]
        return [
            line
            for line in lines
            if line["condition"] in known
            and line["identity"] == identity(self.configuration(line["condition"], line["seed"]))
            and line.get("warm_start") == lines[-1].get("warm_start")
        ]

    def runs_of(self, seeds: int) -> list[tuple[str, int]]:
        """Every condition with its random seeds: seed by seed, first what is compared with the
        anchor."""
        return [
            (name, seed)
            for later in (False, True)
            for seed in range(1, seeds + 1)
            for name in self.conditions
            if ("against" in self.conditions[name]) == later
        ]

    def run_missing(
        self,
        seeds: int,
        only: Sequence[str],
        train: Callable[[Path, str, int, Values], Line],
        workers: int = 1,
    ) -> None:
        """Has `train` run what has no line yet, `workers` runs at a time, in order, and appends
        their lines."""
        done = {
            (line["condition"], line["seed"])
            for line in self.recorded()
            if line.get("warm_start") == BATCHES
        }
        wanted = [
            (name, seed)
            for name, seed in self.runs_of(seeds)
            if (not only or name in {self.anchor, *only}) and (name, seed) not in done
        ]
        with ThreadPoolExecutor(workers) as pool:
            runs = [
                pool.submit(
                    train, self.path(name, seed), name, seed, self.configuration(name, seed)
                )
                for name, seed in wanted
            ]
            try:
                for number, run in enumerate(as_completed(runs), start=1):
                    line = {**run.result(), "warm_start": BATCHES}
                    with self.results.open("a", encoding="utf-8") as sink:
                        sink.write(json.dumps(line) + "\n")
                    about = f"{line['condition']}, seed {line['seed']}"
                    print(f"{number} of {len(runs)}: {about}", file=sys.stderr, flush=True)
            finally:
                pool.shutdown(cancel_futures=True)


def identity(values: Values) -> str:
    """What a line of the results was measured with."""
    return content_id({section: keys for section, keys in values.items() if section != "operation"})


def measured(path: Path, condition: str, seed: int, values: Values) -> Line:
    """Trains the run in `path` to its end (or goes on with it) and scores it; both start in the
    current folder."""
    began = time.monotonic()
    train(path, values)
    trained = time.monotonic()
    files = {which: Path(score_run(path, which)["file"]) for which in ("start", "end")}
    return {
        **finished(path, condition, seed, values, files),
        "seconds": {
            "training": round(trained - began, 1),
            "scoring": round(time.monotonic() - trained, 1),
        },
    }


def train(path: Path, values: Values) -> None:
    """Trains the run in `path` to its end, or goes on with it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    config = path.with_suffix(".toml")
    config.write_text(tomli_w.dumps(values), encoding="utf-8")
    command("up", path, "--config", config, "--json")


def command(verb: str, path: Path, *words: object) -> None:
    """Runs `rods VERB` on a run. Both end with this process, were it killed; what still ends is
    waited for, since it holds the run. Raises RuntimeError where the command fails."""
    for _ in range(WAITS):
        done = subprocess.run(
            [sys.executable, "-m", "rods.console", *verb.split(), str(path), *map(str, words)],
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=False,
            preexec_fn=partial(LIBC.prctl, PR_SET_PDEATHSIG, signal.SIGTERM),
        )
        if done.returncode != EXIT_REFUSED:
            break
        time.sleep(WAIT_SECONDS)
    if done.returncode:
        raise RuntimeError(
            f"{path.name}: rods {verb} ended with {done.returncode}: {done.stderr[-2000:]}"
        )


def finished(
    path: Path, condition: str, seed: int, values: Values, files: Mapping[str, Path]
) -> Line:
    """The line of a trained run, whose held-out scores at its start and end are in `files`."""
    scores = {which: per_task(file)["progress"] for which, file in files.items()}
    run = Run.open(path)
    parts = parts_of(run)
    follower = Follower(path)
    follower.look()
    steps = list(RunState(run).steps())
    found = figures(follower)
    groups = follower.groups
    opening = follower.steps["step"][follower.steps["epoch"] == 0]
    given = groups["task"] < follower.originals
    first = groups["zone"][np.isin(groups["step"], opening) & given]
    return {
        "condition": condition,
        "seed": seed,
        "identity": identity(values),
        **{which: by_part(progress, parts) for which, progress in scores.items()},
        "held_out": len(parts),
        "labels": {which: _label_shares(file) for which, file in files.items()},
        "rollouts": sum(len(group.rollouts) for step in steps for group in step.groups),
        "updates": len(steps),
        "stages": dict(Counter(str(step.stage) for step in steps)),
        "originals": {zone: int((first == index).sum()) for index, zone in enumerate(ZONES)},
        "groups": len(groups),
        # none is of the pool
        "varied": round(float(np.nanmean(groups["variance"] > 0)), 4) if len(groups) else None,
        "variants": {
            name: found[name]
            for name in ("picks", "accepted", "injected", "retired", "first_reward")
        },
    }


def parts_of(run: Run) -> dict[str, str]:
    """The part that each held-out task belongs to: a region where the world has any, else a
    type."""
    return {task.id: task.provenance.get("region", task.type) for task in run.held_out}


def by_part(progress: Mapping[str, float], parts: Mapping[str, str]) -> dict[str, float]:
    """Mean progress of all held-out tasks and of those of each part, by name."""
    found: dict[str, list[float]] = {"all": list(progress.values())}
    for task, value in progress.items():
        found.setdefault(parts[task], []).append(value)
    return {name: round(math.fsum(values) / len(values), 6) for name, values in found.items()}


def _label_shares(file: Path) -> dict[str, float]:
    """What became of the turns of a file of held-out scores: the share of each label
    (docs/diagnosis.md)."""
    records = map(json.loads, file.read_text().splitlines())
    counts = Counter(label for record in records for label in record.get("labels", ()))
    return {label: round(count / counts.total(), 6) for label, count in sorted(counts.items())}


def table(lines: Sequence[Line], study: Study) -> Iterator[str]:
    """The results as Markdown: the regions as they were met, then a row a condition."""
    if not lines:
        return
    met = {zone: sum(line["originals"][zone] for line in lines) for zone in ZONES}
    shares = ", ".join(
        f"{zone.replace('_', ' ')} {count / sum(met.values()):.0%}" for zone, count in met.items()
    )
    yield f"Originals in the first epoch: {shares}."
    yield ""
    yield (
        "| condition | seeds | gained | mastered | boundary | hopeless | RODS over it | groups "
        "that vary "
        "| variants at first | at the boundary | paper |"
    )
    yield f"|{'---|' * 11}"
    by_name = by_condition(lines)
    for name, known in study.conditions.items():
        mine = by_name.get(name, {})
        rods = by_name.get(study.against(name), {})
        if not mine:
            continue
        gains = [
            estimate([line["end"][part] - line["start"][part] for line in mine.values()])
            for part in PARTS
        ]
        both = sorted(mine.keys() & rods.keys())
        over = [rods[seed]["end"]["all"] - mine[seed]["end"]["all"] for seed in both]
        cells = [
            name,
            str(len(mine)),
            *map(signed, gains),
            signed(estimate(over)) if over and name != study.anchor else "",
            f"{np.mean([line['varied'] for line in mine.values()]):.0%}",
            *_first(list(mine.values())),
            f"{known['paper']:.2f}" if "paper" in known else "",
        ]
        yield f"| {' | '.join(cells)} |"


def by_condition(lines: Sequence[Line]) -> dict[str, dict[int, Line]]:
    """The lines by condition and random seed."""
    found: dict[str, dict[int, Line]] = {}
    for line in lines:
        found.setdefault(line["condition"], {})[line["seed"]] = line
    return found


def _first(lines: Sequence[Line]) -> tuple[str, str]:
    """What injected variants earned in their first group, and how many of them at the boundary,
    over all runs."""
    found = [
        line["variants"]["first_reward"]
        for line in lines
        if line["variants"]["first_reward"]["variants"]
    ]
    if not found:
        return "", ""
    every = sum(one["variants"] for one in found)
    earned, inside = (
        sum(one[key] * one["variants"] for one in found) / every for key in ("mean", "in_boundary")
    )
    return f"{earned:.2f}", f"{inside:.0%}"


def signed(found: Estimate) -> str:
    if not math.isfinite(found.standard_error):
        return f"{found.mean:+.3f}".replace("-", "−")
    return f"{found.mean:+.3f} ({found.low:+.3f} to {found.high:+.3f})".replace("-", "−")


LOOP = Study(ROOT / "experiments" / "nano", "nano_loop")


def main(
    study: Study = LOOP,
    tabulate: Callable[[Sequence[Line], Study], Iterator[str]] = table,
    quick: Sequence[str] = (),
    train: Callable[[Path, str, int, Values], Line] = measured,
) -> list[Line]:
    """The command of a study, whose runs `train` makes; returns the lines that it has printed a
    table of."""
    parser = argparse.ArgumentParser(
        description="Trains nano under every condition and prints the table."
    )
    parser.add_argument("--seeds", type=int, default=study.seeds, help="random seeds a condition")
    parser.add_argument(
        "--only",
        nargs="+",
        default=(),
        metavar="CONDITION",
        help=f"these and {study.anchor}; otherwise all",
    )
    parser.add_argument("--workers", type=int, default=2, help="runs at a time, a core each")
    parser.add_argument(
        "--table", action="store_true", help="run nothing, print the table of what is there"
    )
    parser.add_argument(
        "--quick", action="store_true", help="two conditions, two steps, nothing kept"
    )
    parser.add_argument(
        "--json", action="store_true", help="a JSON object a run instead of the table"
    )
    asked = parser.parse_args()
    if unknown := set(asked.only) - study.conditions.keys():
        parser.error(
            f"no such condition: {', '.join(sorted(unknown))}; there are "
            f"{'; '.join(study.conditions)}"
        )
    if asked.quick:
        lines = list(_quick(study, quick, train))
    else:
        if not asked.table:
            # torch, which a look at the table does not need
            from rods.trainer.nano.warm_start import warm_started

            for values in study.warm_starts():
                config = parse_config(values, where=str(study.folder))
                if config.policy.kind == "nano":
                    warm_started(config)  # here, lest every run makes it
            study.run_missing(asked.seeds, asked.only, train, asked.workers)
        lines = study.recorded()
    print(*(map(json.dumps, lines) if asked.json else tabulate(lines, study)), sep="\n")
    return lines


def _quick(
    study: Study, names: Sequence[str], train: Callable[[Path, str, int, Values], Line]
) -> Iterator[Line]:
    with tempfile.TemporaryDirectory(dir=RUNS) as folder:
        for name in names:
            path = Path(folder) / name.replace(" ", "_")
            yield train(path, name, 1, study.configuration(name, 1, QUICK))


if __name__ == "__main__":
    main(quick=("RODS", "static data"))
