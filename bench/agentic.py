"""BFCL V4's memory and web search beside the packaged scorer: verdicts on made transcripts, item
by item.

Claim: every transcript is judged as by BFCL's own decoders and rules. Anchor: these, in a process
of their own. Command: `python -m bench.agentic`. Searches are compared with rank_bm25 0.2.2 and
faiss-cpu 1.15.1 where these can be imported (in a folder on PYTHONPATH, say).
"""

from __future__ import annotations

from bench.figures import Figure, run
from bench.fixtures.agentic import compare_memory, compare_nearest, compare_search, compare_web
from rods.worlds.bfcl import fetch


def measure(quick: bool) -> list[Figure]:
    """Transcripts of 465 and 200 questions in both forms, of the latter twice (quick: of 30 a
    backend, and 20 a kind)."""
    fetch()
    figures = []
    searches = 2_000 if quick else 20_000
    if (equal := compare_search(searches)) is not None:
        figures.append(Figure("searches scored as by rank_bm25", equal / searches, "", reach=1.0))
    if (equal := compare_nearest(searches)) is not None:
        figures.append(
            Figure("searches of vectors answered as by faiss", equal / searches, "", reach=1.0)
        )
    for what, compared in (
        ("memory", compare_memory(30 if quick else 155)),
        ("web search", compare_web(20) if quick else compare_web(100, times=2)),
    ):
        made = compared.made.total()
        valid = compared.valid.total()
        figures += [
            Figure(
                f"{what}: transcripts judged as by BFCL's scorer",
                compared.equal.total() / made,
                "",
                reach=1.0,
            ),
            Figure(f"{what}: transcripts", made, "", reach=100),
            Figure(f"{what}: transcripts that BFCL's scorer calls valid", valid / made, ""),
            *(
                Figure(f"{what}, {kind}: made", number, "")
                for kind, number in sorted(compared.made.items())
            ),
            *(
                Figure(f"{what}, {kind}: valid", compared.valid[kind], "")
                for kind in sorted(compared.made)
            ),
            *(
                Figure(f"DIFFERS {name} {form} {kind}", 1, "")
                for name, form, kind, _ in compared.different[:20]
            ),
        ]
    return figures


if __name__ == "__main__":
    run(measure)
