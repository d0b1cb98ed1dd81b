"""`rods-eval` beside BFCL's own scorer: verdicts on recorded outputs, task by task.

Claim: every output is judged as by the official scorer and its decoders. Anchor: that scorer, in a
process of its own. Command: `python -m bench.eval_parity`.
"""

from __future__ import annotations

from bench.figures import Figure, run
from bench.fixtures.scorer_parity import compare
from rods.worlds.bfcl import fetch, tasks


def measure(quick: bool) -> list[Figure]:
    """Ground truths, mutations, malformed texts, odd shapes (20,000; quick: 2,000) and real outputs
    of SmolLM2."""
    fetch()
    found = compare(tasks(), 2_000 if quick else 20_000)
    real = found.kinds["SmolLM2"]
    return [
        Figure(
            "recorded outputs judged as by BFCL's scorer",
            1 - len(found.different) / found.outputs,
            "",
            reach=1.0,
        ),
        Figure("recorded outputs", found.outputs, "", reach=2_000),
        Figure("recorded outputs that BFCL's scorer calls valid", found.valid / found.outputs, ""),
        Figure("kinds of faults in them", len(found.kinds), ""),
        Figure("real outputs of SmolLM2-135M-Instruct among them", real, "", reach=40),
        *(
            Figure(f"DIFFERS {name} {form} {kind}", 1, "")
            for name, form, kind in found.different[:20]
        ),
    ]


if __name__ == "__main__":
    run(measure)
