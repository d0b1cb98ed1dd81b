"""`rods replay bfcl`."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from console.output import plain, print_json
from rods.commands import Json
from rods.errors import EXIT_FAILED, EXIT_OK

Mutations = Annotated[int, Parameter(help="How many mutated rollouts to compare beside the 800 ground truths.")]
RandomSeed = Annotated[int, Parameter(help="What the mutations are drawn from.")]


def bfcl(*, mutations: Mutations = 10_000, random_seed: RandomSeed = 0, as_json: Json = False) -> int:
    """Compare scoring with BFCL's own checker, turn by turn, and both speeds. Exits 1 when anything differs."""
    from evaluation.bfcl.parity.replay import replay

    report = replay(mutations, random_seed=random_seed, say=lambda line: print(line, file=sys.stderr, flush=True))
    if as_json:
        print_json(report.as_json())
    else:
        print("\n".join(plain(line) for line in report.lines()))
    return EXIT_OK if report.ok else EXIT_FAILED
