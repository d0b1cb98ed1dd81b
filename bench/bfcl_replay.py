"""BFCL's multi-turn tasks, judged by our environments and by BFCL's own checker.

Claim: all 800 ground truths and mutated rollouts get the official verdict in every turn, and calls
and scoring are a multiple as fast. Anchor: BFCL's executor and checker, in the same process, by CPU
time. Command: `python -m bench.bfcl_replay`.
"""

from __future__ import annotations

from bench.bfcl_parity.replay import replay
from bench.figures import Figure, run
from rods.worlds.bfcl import fetch

# times the official speed
REACH = {
    "calls, parsed": 18.0,
    "calls, one rollout a task": 15.0,
    "calls, fresh states": 12.0,
    "calls, from text": 10.0,
    "scored rollouts": 21.0,
}


def measure(quick: bool) -> list[Figure]:
    """All 800 ground truths and mutated rollouts (10,000; quick: 1,000), every turn compared;
    medians of CPU time."""
    fetch()
    report = replay(1_000 if quick else 10_000, rounds=3 if quick else 9)
    truths = report.ground_truths
    mutated = report.mutations
    figures = [
        Figure(
            "ground truths judged as officially, every turn",
            truths.equal / truths.rollouts,
            "",
            reach=1.0,
        ),
        Figure(
            "mutated rollouts judged as officially, every turn",
            mutated.equal / mutated.rollouts,
            "",
            reach=1.0,
        ),
        Figure(
            "mutated rollouts that fail the official check",
            mutated.failing / mutated.rollouts,
            "",
            reach=0.3,
        ),
    ]
    for name, speed in (report.speeds or {}).items():
        figures.append(Figure(name, speed["ours"], speed["unit"], "official", speed["official"]))
        figures.append(
            Figure(f"{name}: times the official speed", speed["ratio"], "×", reach=REACH.get(name))
        )
    return figures


if __name__ == "__main__":
    run(measure)
