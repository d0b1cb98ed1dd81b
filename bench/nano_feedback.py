"""Do feedback and curricula help, alone and together? nano with Environment Tuning, SEAL, RODS and
their combinations.

Claim: with equal rollouts and updates, each of the three gains more held-out progress than the same
reinforcement learning on static data, and together they gain more than alone (004 Appendix I); and
each of Environment Tuning's four stages has its part in that (000 §4.3). Anchors: the conditions of
experiments/feedback/conditions.toml, each of which changes what its name says. Command: `python -m
bench.nano_feedback` (all conditions, ten random seeds, two runs at a time), with the options of
`python -m bench.nano_loop`, whose runs it makes; `--hints`: no run, but what the warm start makes
of hints (a minute).

All runs begin with one warm-started policy, which has seen failures, hints and recoveries, and are
scored on the same held-out tasks with the same draws and without any interface. Differences are
paired by random seed, with intervals of 95 % (Student's t). Runs whose logs hold another number of
rollouts or updates than the others' are named, and the command ends with 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from bench.nano_loop import ROOT, Line, Study, Values, by_condition, main, signed
from rods import dialects, interfaces
from rods.config import Stage, parse_config
from rods.environments.base import Environment
from rods.episode.drivers import Job
from rods.episode.goals import GroundTruth
from rods.evaluation.scoring import estimate
from rods.tasks import Task
from rods.worlds import desk
from rods.worlds.desk.generator import fresh_tasks

STUDY = Study(ROOT / "experiments" / "feedback", "nano_feedback")
SHOWN: dict[str, dict[str, str]] = {  # stages, to the warm start, to see what it makes of hints
    "everything as it is": {},
    "hints": {"feedback": "hints"},
    "SEAL active": {"interface": "seal-active"},
    "SEAL full": {"interface": "seal-full", "evolve": "none"},
    "SEAL full and hints": {"interface": "seal-full", "evolve": "none", "feedback": "hints"},
}
# fresh ones, and of each
TASKS = 100
ROLLOUTS = 4
LONGEST_ROW = 8  # labels in the second table, the commonest first


def table(lines: Sequence[Line], study: Study) -> Iterator[str]:
    """Gains and paired differences as Markdown, and below them what became of the held-out
    turns."""
    if not lines:
        return
    parts = list(lines[0]["start"])
    by_name = by_condition(lines)
    columns = [
        "condition",
        "seeds",
        "gained",
        *parts[1:],
        "over its anchor",
        "groups that vary",
        "steps by stage",
    ]
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for name in study.conditions:
        if not (mine := by_name.get(name)):
            continue
        gains = [
            estimate([line["end"][part] - line["start"][part] for line in mine.values()])
            for part in parts
        ]
        anchor = by_name.get(study.against(name), {}) if name != study.anchor else {}
        over = [
            mine[seed]["end"]["all"] - anchor[seed]["end"]["all"]
            for seed in sorted(mine.keys() & anchor.keys())
        ]
        cells = [
            name,
            str(len(mine)),
            signed(gains[0]),
            *(f"{gain.mean:+.3f}".replace("-", "−") for gain in gains[1:]),
            signed(estimate(over)) if over else "",
            f"{np.mean([line['varied'] for line in mine.values()]):.0%}",
            _stages(list(mine.values())),
        ]
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield from _labels(by_name, study)


def _stages(lines: Sequence[Line]) -> str:
    """The steps that runs spent in each stage, on average."""
    stages = sorted({stage for line in lines for stage in line["stages"]})
    return " + ".join(
        f"{np.mean([line['stages'].get(stage, 0) for line in lines]):.0f}" for stage in stages
    )


def _labels(by_name: dict[str, dict[int, Line]], study: Study) -> Iterator[str]:
    """The share of each label among the held-out turns, at the start and at the end of each
    condition."""
    every = [line for lines in by_name.values() for line in lines.values()]
    names = {name for line in every for end in line["labels"].values() for name in end}

    def mean(lines: Sequence[Line], end: str, name: str) -> float:
        return float(np.mean([line["labels"][end].get(name, 0.0) for line in lines]))

    shown = sorted(names, key=lambda name: (-mean(every, "start", name), name))[:LONGEST_ROW]
    yield f"| held-out turns | {' | '.join(shown)} |"
    yield f"|{'---|' * (len(shown) + 1)}"
    rows = [("at the start", "start", every)]
    rows += [
        (name, "end", list(by_name[name].values())) for name in study.conditions if name in by_name
    ]
    for title, end, lines in rows:
        yield f"| {title} | {' | '.join(f'{mean(lines, end, name):.1%}' for name in shown)} |"


def unequal(lines: Sequence[Line]) -> list[str]:
    """The runs whose logs hold another number of rollouts or updates than the first one's."""
    spent = [(line["rollouts"], line["updates"]) for line in lines]
    return [
        f"{line['condition']}, seed {line['seed']}: {rollouts} rollouts, {updates} updates"
        for line, (rollouts, updates) in zip(lines, spent, strict=True)
        if (rollouts, updates) != spent[0]
    ]


def hints_read(
    values: Values, cases: Sequence[tuple[Task, Environment]], shown: Mapping[str, Any] = SHOWN
) -> Iterator[str]:
    """What the policy that a configuration begins with makes of hints, as Markdown: of tasks in
    their worlds, shown through each interface, how many turns had a refused call, and how many of
    these were resolved all the same."""
    # torch, which a look at the table does not need
    from rods.trainer.engines.local import LocalEngine
    from rods.trainer.nano.warm_start import warm_started

    config = parse_config(values, where="the configuration")
    engine = LocalEngine.load_alone(
        warm_started(config), config.rollouts, config.operation, config.policy.kind
    )
    dialect = dialects.load(config.policy.dialect)
    steps = config.rollouts.max_steps
    goals = [
        (task, world, GroundTruth(world, task)) for task, world in cases for _ in range(ROLLOUTS)
    ]
    yield "| shown | progress | turns with a refused call | of these resolved |"
    yield "|---|---|---|---|"
    for name, stage in shown.items():
        interface = interfaces.load(Stage.model_validate(stage), config.policy.dialect)
        jobs = [
            Job(task, world, dialect, goal, interface=interface, max_steps=steps)
            for task, world, goal in goals
        ]
        traces = [sample.trace for sample in engine.rollouts(jobs, random_seed=0)]
        turns = [turn for trace in traces for turn in trace.turns]
        refused = [
            turn
            for turn in turns
            if any(result.error for step in turn.steps for result in step.results)
        ]
        good = [turn for turn in refused if turn.verdict is not None and turn.verdict.resolved]
        progress = np.mean([trace.resolved / trace.expected for trace in traces])
        yield (
            f"| {name} | {progress:.2f} | {len(refused) / len(turns):.0%} | "
            f"{len(good) / len(refused):.0%} |"
        )


if __name__ == "__main__":
    if "--hints" in sys.argv:
        fresh = [
            (task, desk.environment())
            for task, _ in islice(fresh_tasks(0, "hints", size="small"), TASKS)
        ]
        print(*hints_read(STUDY.configuration(STUDY.anchor, 1), fresh), sep="\n")
    elif others := unequal(main(STUDY, table, quick=("static data", "SEAL full"))):
        raise SystemExit("not comparable: " + "; ".join(others))
