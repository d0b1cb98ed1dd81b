"""Does reinforcement learning use a simulated user? nano on desk tasks whose users know what their
query leaves out.

Claim: with users who answer when they are asked, GRPO gains more held-out reward than the same
steps with users who know nothing, and what it gains hangs on the answers. Anchor: the condition
*mute users* of experiments/personas/conditions.toml: the same tasks, steps and draws, and nothing
to be had by asking. Command: `python -m bench.nano_personas` (both conditions, ten random seeds,
two runs at a time), with the options of `python -m bench.nano_loop`, whose runs it makes.

Both conditions begin with one warm-started policy, which has seen every second demonstration ask,
and are scored on the same held-out tasks with the same draws, whose users answer. Three more
numbers say what the reward comes from: the share of held-out episodes in which the policy asks, at
start and end, and the reward at the end when nobody answers. Differences are paired by random seed,
with intervals of 95 % (Student's t).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.nano_loop import ROOT, Line, Study, Values, by_condition, main, measured, signed
from rods.buffers.run.run import Run
from rods.evaluation.heldout import checkpoint, roll_out
from rods.evaluation.scoring import estimate
from rods.worlds.desk.personas import muted

STUDY = Study(ROOT / "experiments" / "personas", "nano_personas")


def measured_asking(path: Path, condition: str, seed: int, values: Values) -> Line:
    """As `measured`, and how often the held-out policy asks, and what it earns where nobody
    answers."""
    # torch, which a look at the table does not need
    from rods.trainer.engines.local import LocalEngine

    line = measured(path, condition, seed, values)
    run = Run.open(path)
    asks = {}
    for which in ("start", "end"):
        opened, found = checkpoint(path, "start" if which == "start" else "end")
        config = opened.config
        engine = LocalEngine.load_alone(
            found.policy, config.rollouts, config.operation, config.policy
        )
        samples = engine.rollouts(
            [run.players.scored(task, config) for task in run.held_out], random_seed=seed
        )
        asks[which] = round(
            sum(len(sample.trace.turns) > 1 for sample in samples) / len(samples), 6
        )
    silent = [muted(task) for task in run.held_out]
    count = config.training.heldout_rollouts
    played = [
        one.rollout
        for _, every in roll_out(config, found.policy, run.players, silent, count)
        for one in every
    ]
    unanswered = sum(one.resolved / one.expected for one in played) / len(played)
    return {**line, "asks": asks, "unanswered": round(unanswered, 6)}


def table(lines: Sequence[Line], study: Study) -> Iterator[str]:
    """Reward at start and end, and what the gain comes from, as Markdown."""
    if not lines:
        return
    by_name = by_condition(lines)
    columns = [
        "condition",
        "seeds",
        "start",
        "end",
        "gained",
        "asking gained more",
        "asks at start",
        "asks at end",
    ]
    columns += ["end, unanswered"]
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for name in study.conditions:
        if not (mine := by_name.get(name)):
            continue
        anchor = by_name[study.anchor]
        both = sorted(mine.keys() & anchor.keys())
        over = [anchor[seed]["end"]["all"] - mine[seed]["end"]["all"] for seed in both]
        every = list(mine.values())
        cells = [
            name,
            str(len(every)),
            f"{_mean(line['start']['all'] for line in every):.3f}",
            f"{_mean(line['end']['all'] for line in every):.3f}",
            signed(estimate([line["end"]["all"] - line["start"]["all"] for line in every])),
            signed(estimate(over)) if name != study.anchor else "",
            f"{_mean(line['asks']['start'] for line in every):.0%}",
            f"{_mean(line['asks']['end'] for line in every):.0%}",
            f"{_mean(line['unanswered'] for line in every):.3f}",
        ]
        yield f"| {' | '.join(cells)} |"


def _mean(values: Iterator[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


if __name__ == "__main__":
    main(STUDY, table, quick=("asking", "mute users"), train=measured_asking)
