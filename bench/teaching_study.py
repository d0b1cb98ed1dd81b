"""Do feedback and interface pay where there is something to teach? The study of docs/teaching.md.

Claim: in a world with house rules that no document tells, held-out progress without hints gains
more where training shows hints that fade, stages with such hints, or an interface that is
withdrawn, than on static data. Anchors: static data, with the reward of each condition and its KL
weight, in experiments/teaching/conditions.toml. Command: `python -m bench.teaching_study` (all
conditions, ten random seeds, two runs at a time), with the options of `python -m bench.nano_loop`,
whose runs it makes; `--hints`: no run, but what the warm start makes of hints.

Every random seed has a world of its own (`rods data house`), none of whose rules the warm start has
met. A run is scored by sampled rollouts and by greedy ones, and `rods verify` derives its decisions
again. Differences are paired by random seed, with intervals of 95 % (Student's t). Runs that spent
another number of rollouts or updates than the others are named, and the command ends with 1.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.aimed_study import ALPHA, Lines, above_zero, differences, gain, holm
from bench.fixtures.llm_stub import Script, Stub
from bench.nano_feedback import hints_read, unequal
from bench.nano_feedback import table as gains
from bench.nano_loop import (
    ROOT,
    Line,
    Study,
    Values,
    by_condition,
    by_part,
    main,
    measured,
    parts_of,
    signed,
)
from rods.buffers.audit.verify import verify
from rods.buffers.log.disk import replace
from rods.buffers.run.run import Run
from rods.environments.base import Environment
from rods.episode.engine import Trace
from rods.evaluation.heldout import Which, checkpoint
from rods.evaluation.scoring import estimate
from rods.family.house_rules.house import House
from rods.family.house_rules.keeping import house_tasks
from rods.tasks import AnyTask, Task, task_lines

WARM_STARTS = 2  # policies that runs begin with, by random seed in turn
LOOKED_AT = range(901, 911)  # random seeds of the worlds of `--hints`, which the study does not use
DRAWING = threading.Lock()


class TeachingStudy(Study):
    """One whose random seeds have worlds, too, and whose conditions.toml registers hypotheses."""

    def __init__(self, folder: Path, runs: str) -> None:
        super().__init__(folder, runs)
        self.hypotheses: Mapping[str, Mapping[str, Values]] = self.conditions.pop("hypotheses")

    def changes(self, name: str) -> Sequence[Values]:
        known = dict(self.conditions[name])
        of = known.pop("of", "")
        return [*([self.conditions[of]] if of else []), known]

    def configuration(
        self, name: str, seed: int, more: Mapping[str, Values] | None = None
    ) -> Values:
        values = super().configuration(name, seed, more)
        tasks = values["data"]["tasks"].replace(".jsonl", f"-{seed}.jsonl")
        begins_with = {"random_seeds": {**values["random_seeds"], "policy": seed % WARM_STARTS}}
        return {**values, **begins_with, "data": {**values["data"], "tasks": tasks}}

    def warm_starts(self) -> Iterator[Values]:
        yield from (self.configuration(self.anchor, seed) for seed in range(WARM_STARTS))


STUDY = TeachingStudy(ROOT / "experiments" / "teaching", "teaching_study")


def measured_in_house(path: Path, condition: str, seed: int, values: Values) -> Line:
    """As `measured`, after the tasks of this random seed were drawn, with greedy scores as well.
    Raises RuntimeError where `rods verify` finds fault."""
    data = values["data"]
    file = path.with_name(values["data"]["tasks"])
    with DRAWING:
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            told = file.name.startswith("told")
            replace(
                file,
                task_lines(house_tasks(House(seed), seed, data["train"], data["held_out"], told)),
            )
    with asking(values) as config:
        line = measured(path, condition, seed, config)
    found = verify(path)
    if not found.ok:
        raise RuntimeError(f"{path.name}: {'; '.join(map(str, found.problems))}")
    return {**line, "greedy": {which: greedy(path, which) for which in ("start", "end")}}


@contextmanager
def asking(values: Values) -> Iterator[Values]:
    """The configuration, with a stub that plays the agents where a stage shows their texts."""
    if not any(
        stage.get("feedback") == "agents"
        for stage in values.get("curriculum", {}).get("stages", ())
    ):
        yield values
        return
    with Stub(Script(answer="bench.fixtures.llm_stub.roles:plain")) as stub:
        endpoints = [{"model": stub.script.model, "urls": [stub.url]}]
        yield {**values, "operation": {**values["operation"], "endpoints": endpoints}}


def greedy(path: Path, which: Which) -> dict[str, float]:
    """Held-out progress by one greedy rollout a task, by part as in `by_part`."""
    progress = {task.id: trace.resolved / trace.expected for task, trace in played(path, which)}
    return by_part(progress, parts_of(Run.open(path)))


def played(path: Path, which: Which, greedy: bool = True) -> list[tuple[AnyTask, Trace]]:
    """A run's held-out tasks, each with a rollout of its policy at that checkpoint."""
    # torch, which a look at the table does not need
    from rods.trainer.engines.local import LocalEngine

    run, chosen = checkpoint(path, which)
    config = run.config
    with run.playing("scoring"):
        engine = LocalEngine.load_alone(
            chosen.policy, config.rollouts, config.operation, config.policy.kind
        )
        jobs = [run.players.scored(task, config) for task in run.held_out]
        samples = engine.rollouts(jobs, random_seed=0, greedy=greedy)
    return [(task, sample.trace) for task, sample in zip(run.held_out, samples, strict=True)]


def ends(line: Line) -> float:
    return float(line["end"]["all"])


# What a hypothesis compares, `read` of conditions.toml: gains, or progress at the end where
# held-out tasks say more.
READ: dict[str, Callable[[Line], float]] = {"gain": gain, "end": ends}


def more(
    mine: Mapping[int, Line], other: Mapping[int, Line], amount: Callable[[Line], float]
) -> list[float]:
    """How much more of that amount there is in the one than in the other, by random seed."""
    return differences(mine, other, lambda a, b: amount(a) - amount(b))


def verdicts(by_name: Lines, study: TeachingStudy) -> Iterator[str]:
    """The registered tests as Markdown, each family adjusted by Holm's procedure, where a test that
    cannot be made yet counts with a p of 1; beside each what greedy scores say, and the means of
    each warm start. None holds, or fails to, before all of its runs are there."""
    yield (
        "| hypothesis | family | seeds | mean (95 %) | p, one-sided | p, Holm | holds | greedy | "
        "by warm start |"
    )
    yield f"|{'---|' * 9}"
    for family, members in study.hypotheses.items():
        pairs = {
            name: (by_name.get(name, {}), by_name.get(study.against(name), {})) for name in members
        }
        amounts = {name: READ[known.get("read", "gain")] for name, known in members.items()}
        found = {name: more(*pair, amounts[name]) for name, pair in pairs.items()}
        p = {name: above_zero(values) if len(values) > 1 else 1.0 for name, values in found.items()}
        adjusted = holm(p)
        for name, values in found.items():
            if len(values) < 2:
                continue
            told = estimate(values)
            holds = (
                told.low > 0
                and told.mean >= members[name].get("least", 0.0)
                and adjusted[name] < ALPHA
            )
            said = ("yes" if holds else "no") if len(values) >= study.seeds else "not yet known"
            cells = [
                name,
                family,
                f"{len(values)} of {study.seeds}",
                signed(told),
                f"{p[name]:.4f}",
            ]
            cells += [f"{adjusted[name]:.4f}", said, *beside(*pairs[name], amounts[name])]
            yield f"| {' | '.join(cells)} |"
    yield ""


def beside(
    mine: Mapping[int, Line], other: Mapping[int, Line], amount: Callable[[Line], float]
) -> tuple[str, str]:
    """The same difference by greedy scores, and its mean by what runs began with."""
    ours, theirs = (
        {seed: line["greedy"] for seed, line in lines.items()} for lines in (mine, other)
    )
    begun = [
        {seed: mine[seed] for seed in mine if seed % WARM_STARTS == start}
        for start in range(WARM_STARTS)
    ]
    means = [estimate(values).mean for lines in begun if (values := more(lines, other, amount))]
    return signed(estimate(more(ours, theirs, amount))), ", ".join(
        f"{mean:+.3f}".replace("-", "−") for mean in means
    )


def table(lines: Sequence[Line], study: Study) -> Iterator[str]:
    """The tests, then what all conditions gained and what became of the held-out turns."""
    assert isinstance(study, TeachingStudy)
    yield from verdicts(by_condition(lines), study)
    yield from gains(lines, study)


def looked_at(told: bool) -> list[tuple[Task, Environment]]:
    """Held-out tasks of worlds that the study does not use."""
    worlds = [(seed, House(seed)) for seed in LOOKED_AT]
    return [
        (task, world) for seed, world in worlds for task in house_tasks(world, seed, 0, 10, told)
    ]


if __name__ == "__main__":
    if "--hints" in sys.argv:
        for begins_with in STUDY.warm_starts():
            print(*hints_read(begins_with, looked_at(told=False)), sep="\n")
            *_, rules_told = hints_read(begins_with, looked_at(told=True), {"rules told": {}})
            print(rules_told, flush=True)
    elif others := unequal(
        main(STUDY, table, quick=("static data", "faded hints"), train=measured_in_house)
    ):
        raise SystemExit("not comparable: " + "; ".join(others))
