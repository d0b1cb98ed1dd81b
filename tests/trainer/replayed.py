"""`rods-train` that writes down which tokens its policy draws, and draws those of another run:
`python -m tests.trainer.replayed RUN --config FILE`.

Two runs whose sums are rounded in another order draw another token now and then, and learn
something else from there on. Where what they learn is compared, the second is therefore given the
tokens of the first. How likely its own policy found each of them is written down, too, so that a
policy which is not the first one's is noticed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from rods.trainer.__main__ import main
from rods.trainer.engines import local
from rods.trainer.engines.base import Sample

# environment variables: the file to write to, and that of the other run
DRAWN = "RODS_DRAWN"
GIVEN = "RODS_GIVEN"
Rollouts = dict[tuple[int, int], tuple[list[int], list[float]]]

rollouts = local.LocalEngine.rollouts


def recorded(file: Path) -> Rollouts:
    """The tokens that were drawn in each rollout, and their log-probabilities, by the batch's seed
    and the place."""
    lines = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    return {(line["seed"], line["place"]): (line["tokens"], line["logprobs"]) for line in lines}


def drift(one: Path, other: Path) -> float:
    """How far log-probabilities lie apart at most in the rollouts that both files have, which must
    have equal tokens."""
    wanted = recorded(one)
    found = recorded(other)
    shared = found.keys() & wanted.keys()
    assert shared and all(found[key][0] == wanted[key][0] for key in shared)
    return max(
        abs(one - two)
        for key in shared
        for one, two in zip(found[key][1], wanted[key][1], strict=True)
    )


class Batch(local._Batch):
    given: Rollouts

    def __init__(
        self, engine: local.LocalEngine, places: Sequence[int], random_seed: int, greedy: bool
    ) -> None:
        super().__init__(engine, places, random_seed, greedy)
        assert engine.limits.top_p == 1, "the log-probabilities are those of the whole distribution"
        self.keys = [(random_seed, place) for place in places]
        self.count = Counter[tuple[int, int]]()

    def _choose(
        self, logits: Any, uniforms: Any, open_rows: list[int]
    ) -> tuple[list[int], list[float]]:
        chosen, logprobs = super()._choose(logits, uniforms, open_rows)
        whole = (logits / self.limits.temperature).log_softmax(-1)
        for row in open_rows:
            key = self.keys[self.cached[row]]
            if not self.greedy and key in self.given:
                chosen[row] = self.given[key][0][self.count[key]]
                logprobs[row] = whole[row, chosen[row]].item()
            self.count[key] += 1
        return chosen, logprobs


def written(
    engine: local.LocalEngine, jobs: Any, *, random_seed: int, first: int = 0, greedy: bool = False
) -> list[Sample]:
    samples = rollouts(engine, jobs, random_seed=random_seed, first=first, greedy=greedy)
    # a line is one write: processes may share the file
    with Path(os.environ[DRAWN]).open("ab", buffering=0) as file:
        for place, sample in enumerate(samples, first) if not greedy else ():
            own = [index for index, mine in enumerate(sample.env_mask) if mine]
            line: dict[str, Any] = {"seed": random_seed, "place": place}
            line |= {"tokens": [sample.completion_ids[index] for index in own]}
            line |= {"logprobs": [sample.logprobs[index] for index in own]}
            file.write(orjson.dumps(line) + b"\n")
    return samples


def install() -> None:
    """Does what the environment asks for, in this process."""
    if DRAWN in os.environ:
        Batch.given = recorded(Path(os.environ[GIVEN])) if GIVEN in os.environ else {}
        local._Batch = Batch  # type: ignore[misc]
        local.LocalEngine.rollouts = written  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    install()
    main()
