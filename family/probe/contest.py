"""Which variant of a pick comes into the pool, by the fold of probes.jsonl (docs/probe.md): the one
whose mean progress over valid rollouts is nearest to one half, as a fraction. One without a valid
rollout comes behind all others, and of equal ones the first comes first."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

from rods.buffers.folds.staging import Candidate
from rods.buffers.log.parts import segments
from rods.buffers.log.record_bytes import Damage, Record, record
from rods.buffers.log.tail import Tail
from rods.buffers.log.writer import LogWriter
from rods.buffers.merging.rules import Refusal
from rods.buffers.run.run import Run
from rods.canonical import keyed_random
from rods.extension import Contest
from rods.family.probe.settings import PROBES
from rods.faults import INVALID_ENDS
from rods.tasks import AnyTask


class Probes(Contest):
    """The fold."""

    def __init__(self, run: Run, *, strict: bool = False) -> None:
        self._config: Any = run.config
        self._path = run.path / PROBES
        self._tail = Tail(self._path, strict=strict)
        self._records = list[Record]()

    def files(self) -> Iterable[Path]:
        return segments(self._path)

    def poll(self) -> None:
        self._records += self._tail.records()

    def begin(self, epoch: int, counts: Callable[..., bool]) -> int | None:
        self.poll()
        live = [probed for probed in self._records if probed["epoch"] <= epoch and counts(probed)]
        self._over = {
            one["pick"] for probed in live if probed["epoch"] < epoch for one in probed["variants"]
        }
        made = [probed for probed in live if probed["epoch"] == epoch]
        self._made = [one for probed in made for one in probed["variants"]]
        self._due: list[tuple[str, int, AnyTask, int]] = []  # pick, seq, variant, rollouts
        self.played = sum(len(one["rollouts"]) for one in self._made)
        self.wanted = False
        return made[0]["expanded_seq"] if made else None

    def sifted(
        self, candidates: Sequence[Candidate], budget: int, refuse: Callable[[Any], Any]
    ) -> tuple[Any, Any]:
        means = {one["expanded"]: _mean(one["rollouts"]) for one in self._made}
        far = {seq: abs(mean - Fraction(1, 2)) for seq, mean in means.items() if mean is not None}
        picks = dict[str, list[Candidate]]()
        looked = list[Candidate]()
        outdone = dict[int, Refusal]()
        kept = set[int]()
        rollouts = self._config.probe.rollouts
        for candidate in candidates:
            picks.setdefault(candidate.pick, []).append(candidate)
        for pick, rivals in picks.items():
            if pick in self._over:
                outdone |= {
                    one.seq: Refusal("probe", "its pick was decided about before") for one in rivals
                }
            elif len(kept) < budget:
                judged = {one.seq: refuse(one.content) for one in rivals}
                fit = {seq: task for seq, task in judged.items() if not isinstance(task, Refusal)}
                best = min(fit, key=lambda seq: far.get(seq, 1), default=0)
                for seq in fit.keys() - {best}:
                    outdone[seq] = Refusal(
                        "probe", f"mean {means.get(seq)}, and {fit[best].id} has {means.get(best)}"
                    )
                kept |= {best} & fit.keys()
                self._due += [
                    (pick, seq, task, rollouts if len(fit) > 1 else 0) for seq, task in fit.items()
                ]
            else:
                continue
            looked += rivals
        self.wanted = bool(self._due) and not self._made
        told = [
            (one["pick"], one["expanded"], one["task"], len(one["rollouts"])) for one in self._made
        ]
        if not self.wanted and told != [
            (pick, seq, task.id, many) for pick, seq, task, many in self._due
        ]:
            raise Damage(self._path, 0, f"its probes {told} are not those of the merge")
        return sorted(looked, key=lambda one: one.seq in kept), outdone

    def play(self, at: Mapping[str, Any], play: Callable[..., Any]) -> None:
        tasks = [task for *_, task, many in self._due if many]
        key = self._config.random_seeds.rollouts, "probe", at["epoch"], *(task.id for task in tasks)
        count = self._config.probe.rollouts
        seed = keyed_random(*key).getrandbits(62)
        played = iter(play(at, tasks, count, seed) if tasks else ())
        variants = []
        for pick, seq, task, many in self._due:
            rollouts = next(played) if many else ()
            told = [
                {"resolved": one.resolved, "expected": one.expected, "end": one.end}
                for one in rollouts
            ]
            variants.append({"pick": pick, "expanded": seq, "task": task.id, "rollouts": told})
        with closing(
            LogWriter(self._path, part_bytes=self._config.operation.log_part_bytes)
        ) as writer:
            writer.append([record("probed", **at, variants=variants)])


def _mean(rollouts: Sequence[Record]) -> Fraction | None:
    """The mean progress of the valid ones; None where there is none."""
    valid = [
        Fraction(one["resolved"], one["expected"])
        for one in rollouts
        if one["end"] not in INVALID_ENDS
    ]
    return sum(valid, Fraction(0)) / len(valid) if valid else None
