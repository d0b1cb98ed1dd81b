"""ACEBench beside the package: made transcripts of made items, by ours and by evalscope's own
adapter.

Claim: every transcript has the same prompts, of the policy and of who plays the user, and the same
scores as in the package. Anchor: the package's adapter in a process of its own, with stub models
that say the same texts. The items are made, too: the real ones are the user's. Command: `python -m
bench.acebench`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.figures import Figure, run
from bench.fixtures.acebench_items import kept
from bench.fixtures.acebench_talks import compare


def measure(quick: bool) -> list[Figure]:
    """Fifty transcripts of each item (quick: five)."""
    with tempfile.TemporaryDirectory() as folder, kept(Path(folder)):
        compared = compare(5 if quick else 50)
    made = compared.made.total()
    return [
        Figure("transcripts that are the package's", compared.equal.total() / made, "", reach=1.0),
        Figure("transcripts", made, "", reach=500),
        Figure("transcripts that earn its score", compared.valid.total() / made, ""),
        *(
            Figure(f"{kind}: {what}, of {count}", counts[kind], "")
            for what, counts in (("right", compared.valid), ("equal", compared.equal))
            for kind, count in sorted(compared.made.items())
        ),
        *(Figure(f"DIFFERS {name} {kind}", 1, "") for name, _, kind, _ in compared.different[:20]),
    ]


if __name__ == "__main__":
    run(measure)
