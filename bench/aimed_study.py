"""Does aiming pay? The study that docs/study.md registers: hypotheses, conditions, sizes and
analysis stand there.

Claim: variants that are aimed (by directions, by skills, or both) gain more held-out progress than
variants of uniformly random seeds, at equal rollouts and at equally many written variants, and move
the hopeless region. Anchors: static data and uniformly random seeds, in every setting of
experiments/aimed/conditions.toml. Command: `python -m bench.aimed_study` (all that is registered,
two runs at a time), with the options of `python -m bench.nano_loop`, whose runs it makes; `--table`
prints the tests and tables of what is there.

A run ends at the last step by whose end no more rollouts than `training.steps` full batches can
have been spent, whatever they were spent on: groups that refill a step are charged like others, and
so is what a probe has played. It is trained in legs of as many checkpoints as a run keeps, and
scored after each. Runs are in lockstep and deterministic: one that is killed at any moment and
started again gives the same line but for its seconds. Intervals are of 95 % (Student's t) over
random seeds.
"""

from __future__ import annotations

import os
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np

from bench.nano_loop import (
    ROOT,
    RUNS,
    Line,
    Study,
    Values,
    by_condition,
    by_part,
    command,
    finished,
    main,
    parts_of,
    signed,
    train,
)
from bench.nano_worlds import draw_worlds
from rods.buffers.checkpoints import KEEP, Checkpoints
from rods.buffers.log.tail import read
from rods.buffers.run import runfolder
from rods.buffers.run.run import Run
from rods.buffers.state import RunState, read_state, starts_of
from rods.config import parse_config
from rods.evaluation.heldout import per_task, score_run
from rods.evaluation.scoring import estimate
from rods.rules.selection import signals

PARTS = ("all", "hopeless", "boundary", "mastered")
ABOUT = ("of",)  # what a condition says besides its changes
ALPHA = 0.05
QUICK = (
    "desk, 48 steps, Muon: directions and skills",
    "desk, 48 steps, Muon: random seeds, refilled",
)


class AimedStudy(Study):
    """Its conditions are cells, `"SETTING: CONDITION"`. A setting names its base configuration,
    what it changes there, and of each of its conditions the first and the last random seed."""

    seeds = 20

    def __init__(self, folder: Path, runs: str) -> None:
        self.folder = folder
        self.runs = RUNS / runs
        self.results = folder / "results.jsonl"
        self.plan: Values = tomllib.loads((folder / "conditions.toml").read_text(encoding="utf-8"))
        self.conditions = {
            f"{setting}: {name}": {"setting": setting, "condition": name, "seeds": seeds}
            for setting, known in self.plan["settings"].items()
            for name, seeds in known["cells"].items()
        }
        self.anchor = next(iter(self.conditions))

    def setting(self, name: str) -> Values:
        known: Values = self.plan["settings"][self.conditions[name]["setting"]]
        return known

    def against(self, name: str) -> str:
        return f"{self.conditions[name]['setting']}: {self.plan['against']}"

    def base(self, name: str) -> Path:
        return self.folder / f"{self.setting(name)['base']}.toml"

    def changes(self, name: str) -> Sequence[Values]:
        return [
            self.setting(name).get("changes", {}),
            *self._condition(self.conditions[name]["condition"]),
        ]

    def _condition(self, name: str) -> list[Values]:
        """What a condition changes, that of which it is a variation first. Raises LookupError where
        that is the best one and its runs are not all there."""
        known: Values = self.plan["conditions"][name]
        of = self.best() if known.get("of") == "best" else known.get("of")
        own = {section: keys for section, keys in known.items() if section not in ABOUT}
        return [*(self._condition(of) if of else ()), own]

    def best(self) -> str:
        """The condition that the registered rule decides for. Raises LookupError where its runs are
        not all there."""
        rule = self.plan["best"]
        first, last = rule["seeds"]
        by_name = by_condition(
            super().recorded({f"{rule['setting']}: {name}" for name in rule["of"]})
        )
        gains = dict[str, float]()
        for name in rule["of"]:
            lines = by_name.get(f"{rule['setting']}: {name}", {})
            if not set(range(first, last + 1)) <= lines.keys():
                raise LookupError(f"the best condition is not known before {name} has run")
            gains[name] = float(np.mean([gain(lines[seed]) for seed in range(first, last + 1)]))
        return max(gains, key=lambda name: gains[name])

    def configuration(
        self, name: str, seed: int, more: Mapping[str, Values] | None = None
    ) -> Values:
        values = super().configuration(name, seed, more)
        if values.get("aiming", {}).get("schedule_steps"):  # the ladder takes the whole run
            values["aiming"] = {**values["aiming"], "schedule_steps": values["training"]["steps"]}
        if values["data"]["tasks"] == "tasks.jsonl":  # a random seed has worlds of its own
            values["data"] = {**values["data"], "tasks": f"tasks-{seed}.jsonl"}
        return values

    def known(self) -> list[str]:
        """The cells that can be configured: of the best condition as soon as it is known."""
        found = []
        for name in self.conditions:
            try:
                self.changes(name)
            except LookupError:
                continue
            found.append(name)
        return found

    def recorded(self, names: Container[str] | None = None) -> list[Line]:
        return super().recorded(self.known() if names is None else names)

    def warm_starts(self) -> Iterator[Values]:
        for setting in self.plan["settings"]:
            yield self.configuration(
                next(name for name in self.conditions if name.startswith(f"{setting}: ")), 1
            )

    def runs_of(self, seeds: int) -> list[tuple[str, int]]:
        """Setting by setting and there seed by seed: what was stopped early has whole pairs."""
        known = self.known()
        return [
            (name, seed)
            for setting in self.plan["settings"]
            for seed in range(1, seeds + 1)
            for name in known
            if self.conditions[name]["setting"] == setting
            and self.conditions[name]["seeds"][0] <= seed <= self.conditions[name]["seeds"][1]
        ]

    def run_missing(
        self,
        seeds: int,
        only: Sequence[str],
        train: Callable[[Path, str, int, Values], Line],
        workers: int = 1,
    ) -> None:
        """All registered cells; those of the best condition last, when the others have decided
        which it is."""
        for _ in range(2):
            super().run_missing(seeds, only, train, workers)


STUDY = AimedStudy(ROOT / "experiments" / "aimed", "aimed_study")


def measured(path: Path, condition: str, seed: int, values: Values) -> Line:
    """Trains the run in `path` until its rollouts are spent, or goes on with it, and scores its
    checkpoints."""
    began = time.monotonic()
    scoring = 0.0
    if values["policy"].get("warm_start") == "generated":
        path = Path.cwd() / path.name  # beside the worlds and their tasks
        draw_worlds(path.parent, values["data"]["tasks"], seed)
    config = parse_config(values, where=condition)
    training = values["training"]
    # of a variant, once
    probed = cast(Any, config).probe.rollouts if cast(Any, config).probe.enabled else 0
    every = config.training.checkpoint_steps
    step_rollouts = config.training.batch_tasks * config.rollouts.rollouts_per_task
    budget = config.training.steps * step_rollouts
    dearest = step_rollouts * (1 + config.rollouts.refill)
    dearest += config.selection.seeds_per_step * config.pipeline.variants_per_seed * probed
    files: dict[int, Path] = {}
    end = min(budget // dearest, KEEP * every)
    if runfolder.exists(path):
        end = max(end, Run.open(path).config.training.steps)
        # one of a stop may push them out
        for checkpoint in Checkpoints(path).named(starts_of(path).keeps):
            if checkpoint.position.step % every == 0:
                score(path, checkpoint.position.step)
    while True:
        leg = {**values, "training": {**training, "steps": end}}
        if runfolder.exists(path) and Run.open(path).config.training.steps < end:
            command("trainer extend", path, "--steps", end)
        train(path, leg)
        spent = charged(path)
        left = (
            max(0, budget - sum(spent) - probed * len(read_state(Run.open(path)).staging))
            // dearest
        )
        paused = time.monotonic()
        for step in (*range(0, end + 1, every), *([] if left else [end])):
            files[step] = score(path, step)
        scoring += time.monotonic() - paused
        if not left:
            break
        end = min(end + left, (end // every + KEEP) * every)
    line = finished(path, condition, seed, values, {"start": files[0], "end": files[end]})
    for late in ("picks", "accepted"):  # of the last steps, which nothing waits for
        del line["variants"][late]
    seconds = {
        "training": round(time.monotonic() - began - scoring, 1),
        "scoring": round(scoring, 1),
    }
    return {
        **line,
        "rollouts": sum(spent),
        "curve": curve(path, files, spent),
        **landed(path),
        "seconds": seconds,
    }


def charged(path: Path) -> list[int]:
    """The rollouts that each step of a run has cost: of all its groups, those that were replaced
    too, and those that were played before the merge that it follows."""
    played = {
        record["step"]: record["counts"].get("played", 0)
        for record in read(path / runfolder.POOL)
        if record["kind"] == "epoch"
    }
    steps = RunState(Run.open(path)).steps()
    return [
        sum(len(group.rollouts) for group in step.groups) + played.get(step.step - 1, 0)
        for step in steps
    ]


def score(path: Path, step: int) -> Path:
    """The held-out scores of a step, whose checkpoint may be gone once they are there."""
    there = sorted((path / runfolder.EVALUATION).glob(f"heldout_step_{step:08d}.a*.jsonl"))
    return there[-1] if there else Path(score_run(path, step)["file"])


def curve(path: Path, files: Mapping[int, Path], spent: Sequence[int]) -> list[Line]:
    """Held-out progress at each scored step, and what had been spent by then, injected, and written
    for the picks up to the last merge before it: what is written later is not waited for."""
    run = Run.open(path)
    parts = parts_of(run)
    total = [0, *accumulate(spent)]
    written = {
        record["task"]["id"]: int(record["pick"].split("-")[0])
        for record in read(path / runfolder.EXPANDED)
    }
    merges = set[int]()
    injected = dict[str, int]()
    for record in read(path / runfolder.POOL):
        if record["kind"] == "epoch":
            merges.add(record["step"])
        if record["kind"] == "injected":
            injected.setdefault(record["task"], record["step"])
    points = []
    for step, file in sorted(files.items()):
        merge = max((merge for merge in merges if merge < step), default=0)
        points.append(
            {
                "step": step,
                "rollouts": total[step],
                "written": sum(picked <= merge for picked in written.values()),
                "injected": sum(after <= merge for after in injected.values()),
                "scores": by_part(per_task(file)["progress"], parts),
            }
        )
    return points


def landed(path: Path) -> Line:
    """By direction: of the variants that were rolled out their number, the mean reward of their
    seeds at the pick, and that of their own first counted group."""
    first: dict[str, float] = {}
    for step in RunState(run := Run.open(path)).steps():
        for signal in signals(step.groups, run.config.selection):
            if signal.moments is not None:
                first.setdefault(signal.task, signal.moments.mean)
    picks = {
        record["pick"]: record
        for record in read(path / runfolder.SEEDS)
        if record["kind"] == "picked"
    }
    found = defaultdict[str, dict[str, tuple[float, float]]](dict)
    for record in read(path / runfolder.EXPANDED):
        task = record["task"]
        mean = picks[record["pick"]]["why"].get("mean")
        if task["id"] in first and mean is not None:
            direction = task.get("provenance", {}).get("aim", {}).get("direction", "unaimed")
            found[direction][task["id"]] = mean, first[task["id"]]
    return {
        "landed": {
            direction: {"variants": len(means), "seed": _mean(means, 0), "first": _mean(means, 1)}
            for direction, means in sorted(found.items())
        }
    }


def _mean(pairs: Mapping[str, tuple[float, float]], place: int) -> float:
    return float(np.mean([pair[place] for pair in pairs.values()]))


def gain(line: Line, part: str = "all") -> float:
    return float(line["end"][part] - line["start"][part])


def area(line: Line, part: str = "all") -> float:
    """The mean gain over the rollouts of the run: the area under its curve by the trapezoid rule,
    over their number."""
    at = np.array([point["rollouts"] for point in line["curve"]], float)
    gained = gains(line, part)
    return float(np.sum(np.diff(at) * (gained[1:] + gained[:-1]) / 2) / at[-1])


def gains(line: Line, part: str = "all") -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array(
        [point["scores"][part] - line["curve"][0]["scores"][part] for point in line["curve"]]
    )


def reached(line: Line, score: float) -> float | None:
    """The rollouts after which the curve, straight between its points, first comes to a score;
    None: never."""
    points = [(point["rollouts"], point["scores"]["all"]) for point in line["curve"]]
    if points[0][1] >= score:
        return 0.0
    for (before, low), (after, high) in pairwise(points):
        if high >= score:
            return float(before + (after - before) * (score - low) / (high - low))
    return None


def gain_at(line: Line, what: str, count: float, part: str = "all") -> float:
    """The gain when `count` variants were `written` or `injected`: at the last point with no more,
    and from there straight to the next one; the gain in the end where there were never more."""
    counts = [point[what] for point in line["curve"]]
    gained = gains(line, part)
    last = max(at for at, known in enumerate(counts) if known <= count)
    if last + 1 == len(counts):
        return float(gained[-1])
    share = (count - counts[last]) / (counts[last + 1] - counts[last])
    return float(gained[last] + share * (gained[last + 1] - gained[last]))


def at_equal(mine: Line, other: Line, what: str, part: str = "all") -> float:
    """The difference of the gains when both had as many variants written (or injected) as the
    thriftier one has in the end. The other is read where it had spent fewer rollouts: the
    comparison favours the thriftier one."""
    count = min(line["curve"][-1][what] for line in (mine, other))
    return gain_at(mine, what, count, part) - gain_at(other, what, count, part)


Lines = Mapping[str, Mapping[int, Line]]  # by cell and random seed


def differences(
    mine: Mapping[int, Line], other: Mapping[int, Line], of: Callable[[Line, Line], float]
) -> list[float]:
    """Paired by random seed."""
    return [of(mine[seed], other[seed]) for seed in sorted(mine.keys() & other.keys())]


def above_zero(values: Sequence[float]) -> float:
    """The one-sided p of Student's t for a mean of at most 0."""
    from scipy.special import stdtr  # late, as the product imports it

    scatter = float(np.std(values, ddof=1)) / len(values) ** 0.5
    mean = float(np.mean(values))
    if not scatter:
        return float(mean <= 0)
    return float(1 - stdtr(len(values) - 1, mean / scatter))


def holm(found: Mapping[str, float]) -> dict[str, float]:
    """The p values adjusted by Holm's procedure."""
    adjusted = dict[str, float]()
    worst = 0.0
    for rank, name in enumerate(sorted(found, key=lambda name: found[name])):
        worst = max(worst, min(1.0, (len(found) - rank) * found[name]))
        adjusted[name] = worst
    return adjusted


def tested(by_name: Lines, setting: str, condition: str, known: Values) -> tuple[list[float], bool]:
    """What a hypothesis says of a condition, one value a random seed, and whether the rest of it
    holds: a mean of at least so much, and where variants are equal, a mean difference above 0 at
    equal rollouts, too."""
    part = known.get("part", "all")
    what = known.get("at_equal")
    mine = by_name.get(f"{setting}: {condition}", {})
    if "against" not in known:
        found = [gain(line, part) for line in mine.values()]
        return found, bool(found) and float(np.mean(found)) >= known.get("least", 0.0)
    other = by_name.get(f"{setting}: {known['against']}", {})
    plain = differences(mine, other, lambda a, b: gain(a, part) - gain(b, part))
    found = differences(mine, other, lambda a, b: at_equal(a, b, what, part)) if what else plain
    return found, bool(plain) and float(np.mean(plain)) > 0


def registered(study: AimedStudy, title: str) -> int:
    """How many random seeds a hypothesis about a condition is to be tested with, those of both
    sides."""
    name, _, condition = title.partition(": ")
    known = study.plan["hypotheses"][name]
    cells = study.plan["settings"][known["setting"]]["cells"]
    sides = [cells[side] for side in (condition, known.get("against")) if side is not None]
    return int(min(last for _, last in sides) - max(first for first, _ in sides) + 1)


def verdicts(by_name: Lines, study: AimedStudy) -> Iterator[str]:
    """The tests of the registered hypotheses as Markdown, each family adjusted by Holm's procedure,
    where a test that cannot be made yet counts with a p of 1. None holds, or fails to, before all
    of its runs are there."""
    columns = ["hypothesis", "family", "seeds", "mean (95 %)", "p, one-sided", "p, Holm", "holds"]
    yield _row(*columns)
    yield f"|{'---|' * len(columns)}"
    for family in ("primary", "secondary"):
        found = {
            f"{name}: {condition}": tested(by_name, known["setting"], condition, known)
            for name, known in study.plan["hypotheses"].items()
            for condition in known["conditions"]
            if known["family"] == family
        }
        p = {
            title: above_zero(values) if len(values) > 1 else 1.0
            for title, (values, _) in found.items()
        }
        found = {
            title: (values, besides)
            for title, (values, besides) in found.items()
            if len(values) > 1
        }
        adjusted = holm(p)
        for title, (values, besides) in found.items():
            told = estimate(values)
            holds = "yes" if besides and told.low > 0 and adjusted[title] < ALPHA else "no"
            if len(values) < (all_of := registered(study, title)):
                holds = "not yet known"
            numbers = (f"{p[title]:.4f}", f"{adjusted[title]:.4f}", holds)
            yield _row(title, family, f"{len(values)} of {all_of}", signed(told), *numbers)
    yield ""


def table(lines: Sequence[Line], study: Study) -> Iterator[str]:
    """Everything that docs/study.md registers, as Markdown: the tests, then three tables a
    setting."""
    assert isinstance(study, AimedStudy)
    by_name = by_condition(lines)
    yield from verdicts(by_name, study)
    for setting in study.plan["settings"]:
        cells = {
            name: by_name[name]
            for name in study.conditions
            if name.startswith(f"{setting}: ") and name in by_name
        }
        if cells:
            yield f"**{setting}**"
            yield ""
            for part in (_gained, _spent, _curves):
                yield from part(cells, setting)
                yield ""


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _told(values: Sequence[float]) -> str:
    return signed(estimate(values)) if values else ""


def _gained(cells: Lines, setting: str) -> Iterator[str]:
    """Gains by region, areas, and paired differences to random seeds, at equal rollouts, injected
    and written."""
    columns = [
        "condition",
        "seeds",
        *(part for part in PARTS),
        "area",
        "over static data",
        "over random seeds",
    ]
    columns += ["area over random seeds", "at equal injected", "at equal written"]
    yield _row(*columns)
    yield f"|{'---|' * len(columns)}"
    static, drawn = (
        cells.get(f"{setting}: {name}", {}) for name in ("static data", "random seeds")
    )
    for name, mine in cells.items():
        every = list(mine.values())
        parts = [part for part in PARTS if part in every[0]["end"]]
        over = [
            differences(mine, static, lambda a, b: gain(a) - gain(b)) if mine is not static else [],
            differences(mine, drawn, lambda a, b: gain(a) - gain(b)),
            differences(mine, drawn, lambda a, b: area(a) - area(b)),
            differences(mine, drawn, lambda a, b: at_equal(a, b, "injected")),
            differences(mine, drawn, lambda a, b: at_equal(a, b, "written")),
        ]
        over[1:] = [[]] * 4 if mine is drawn else over[1:]
        over[3:] = [[]] * 2 if mine is static else over[3:]  # it has none
        shown = [
            _told([gain(line, part) for line in every]) if part in parts else "" for part in PARTS
        ]
        title = name.removeprefix(f"{setting}: ")
        yield _row(
            title, str(len(mine)), *shown, _told([area(line) for line in every]), *map(_told, over)
        )


def _spent(cells: Lines, setting: str) -> Iterator[str]:
    """What it cost, how many groups varied, when static data's end was reached, and where variants
    came out."""
    columns = [
        "condition",
        "rollouts",
        "steps",
        "written",
        "injected",
        "groups that vary",
        "rollouts to static data's end",
    ]
    columns += ["reached", "first group by direction: of the seed → of the variant"]
    yield _row(*columns)
    yield f"|{'---|' * len(columns)}"
    static = cells.get(f"{setting}: static data", {})
    for name, mine in cells.items():
        every = list(mine.values())
        both = sorted(mine.keys() & static.keys())
        when = [reached(mine[seed], static[seed]["end"]["all"]) for seed in both]
        censored = [
            mine[seed]["rollouts"] if at is None else at
            for seed, at in zip(both, when, strict=True)
        ]
        yield _row(
            name.removeprefix(f"{setting}: "),
            f"{np.mean([line['rollouts'] for line in every]):.0f}",
            f"{np.mean([line['updates'] for line in every]):.0f}",
            *(
                f"{np.mean([line['curve'][-1][what] for line in every]):.0f}"
                for what in ("written", "injected")
            ),
            f"{np.mean([line['varied'] for line in every]):.0%}",
            f"{np.mean(censored):.0f}" if both else "",
            f"{sum(at is not None for at in when)} of {len(both)}" if both else "",
            _landed(every),
        )


def _landed(lines: Sequence[Line]) -> str:
    """By direction the number of variants, and mean rewards: of their seeds at the pick and of
    their first groups."""
    told = []
    for direction in sorted({name for line in lines for name in line["landed"]}):
        found = [line["landed"][direction] for line in lines if direction in line["landed"]]
        count = sum(one["variants"] for one in found)
        seed, first = (
            sum(one[key] * one["variants"] for one in found) / count for key in ("seed", "first")
        )
        told.append(f"{direction} ({count}): {seed:.2f} → {first:.2f}")
    return "; ".join(told)


def _curves(cells: Lines, setting: str) -> Iterator[str]:
    """Mean held-out progress by region at each scored checkpoint that all runs of a condition
    have."""
    yield _row("condition", "region", "steps: mean progress")
    yield f"|{'---|' * 3}"
    for name, mine in cells.items():
        points = [
            {point["step"]: point["scores"] for point in line["curve"]} for line in mine.values()
        ]
        shared = sorted(set.intersection(*(set(known) for known in points)))
        for part in (part for part in PARTS if part in points[0][0]):
            means = (
                f"{step}: {np.mean([known[step][part] for known in points]):.3f}" for step in shared
            )
            yield _row(name.removeprefix(f"{setting}: "), part, ", ".join(means))


if __name__ == "__main__":
    STUDY.runs.mkdir(parents=True, exist_ok=True)
    os.chdir(STUDY.runs)  # a generated world is looked for from the current folder
    main(STUDY, table, quick=QUICK, train=measured)
