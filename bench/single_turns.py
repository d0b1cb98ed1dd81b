"""BFCL V4's single turns beside the packaged scorer: verdicts on made transcripts, item by item.

Claim: every transcript is judged as by BFCL's own decoders and comparison. Anchor: these, in a
process of their own. Command: `python -m bench.single_turns`. Transcripts in Java and JavaScript
are judged where tree_sitter 0.21.3, tree_sitter_java 0.21.0 and tree_sitter_javascript 0.21.4 can
be imported (in a folder on PYTHONPATH, say), and else those of native calls alone.
"""

from __future__ import annotations

from bench.figures import Figure, run
from bench.fixtures.single_turns import compare
from rods.worlds.bfcl import fetch


def measure(quick: bool) -> list[Figure]:
    """Transcripts of 3,641 items, prompt mode and native calls (quick: of 30 a category)."""
    fetch()
    compared = compare(30 if quick else 2_000)
    made = compared.made.total()
    valid = compared.valid.total()
    return [
        Figure(
            "transcripts judged as by BFCL's scorer", compared.equal.total() / made, "", reach=1.0
        ),
        Figure("transcripts", made, "", reach=500),
        Figure("transcripts that BFCL's scorer calls valid", valid / made, ""),
        Figure("transcripts that it could not judge for want of a parser", compared.unjudged, ""),
        *(
            Figure(f"{kind}: valid of {made}", compared.valid[kind], "")
            for kind, made in sorted(compared.made.items())
        ),
        *(
            Figure(f"{kind}: equal of {made}", compared.equal[kind], "")
            for kind, made in sorted(compared.made.items())
        ),
        *(
            Figure(f"DIFFERS {name} {form} {kind}", 1, "")
            for name, form, kind, _ in compared.different[:20]
        ),
    ]


if __name__ == "__main__":
    run(measure)
