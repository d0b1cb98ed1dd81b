"""Does nano learn as well where a server plays each batch during the update before it
(`rollouts.ahead`)?

Claim: at equally many rollouts and updates held-out progress at the end is the same, within 0.02 in
either direction. Anchor: the condition *none ahead* of experiments/ahead/conditions.toml; both are
played by the same server (bench/fixtures/nano_server.py). Command: `python -m bench.nano_ahead`
(both conditions, ten random seeds), with the options of `python -m bench.nano_loop`, whose runs it
makes. Differences are paired by random seed, with intervals of 95 % (Student's t).

Runs are resumed like those, but not the same twice: which requests a server answers together
depends on clocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.nano_loop import ROOT, Line, Study, Values, by_condition, main, measured, signed
from rods.buffers.run.run import Run
from rods.buffers.state import RunState
from rods.config import parse_config
from rods.evaluation.scoring import estimate

STUDY = Study(ROOT / "experiments" / "ahead", "nano_ahead")
AHEAD = "a batch ahead"


def measured_served(path: Path, condition: str, seed: int, values: Values) -> Line:
    """As `measured`, played by a server of this process; `ahead`: the share of steps that were
    played before the update behind the step before them."""
    # torch, which a look at the table does not need
    from bench.fixtures.nano_server import served
    from rods.trainer.nano.warm_start import warm_started

    with served(warm_started(parse_config(values, where=condition))) as url:
        servers = {"rollout_servers": [{"model": "nano", "urls": [url]}]}
        operation = {**values["operation"], **servers}
        line = measured(path, condition, seed, {**values, "operation": operation})
    steps = [step.record for step in RunState(Run.open(path)).steps()]
    late = sum(record["policy_step"] == record["step"] - 2 for record in steps)
    return {**line, "ahead": round(late / len(steps), 4)}


def table(lines: Sequence[Line], study: Study) -> Iterator[str]:
    """What both gained, and the difference with what it means, as Markdown."""
    by_name = by_condition(lines)
    columns = ["condition", "seeds", "played ahead", "start", "end", "gained", "over none ahead"]
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    anchor = by_name.get(study.anchor, {})
    for name in study.conditions:
        if not (every := by_name.get(name)):
            continue
        cells = [name, str(len(every))]
        cells.append(f"{sum(line['ahead'] for line in every.values()) / len(every):.0%}")
        for which in ("start", "end"):
            mean = sum(line[which]["all"] for line in every.values()) / len(every)
            cells.append(f"{mean:.3f}")
        gains = [line["end"]["all"] - line["start"]["all"] for line in every.values()]
        cells.append(signed(estimate(gains)))
        both = sorted(every.keys() & anchor.keys())
        over = [every[seed]["end"]["all"] - anchor[seed]["end"]["all"] for seed in both]
        cells.append(signed(estimate(over)) if name != study.anchor and over else "")
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main(STUDY, table, quick=("none ahead", AHEAD), train=measured_served)
