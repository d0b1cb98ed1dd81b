"""How often turns that needed a function went well, and how the functions of variants are drawn by
that (docs/skills.md says what a turn needs, and what counts as failed).

A pick draws for each of them from the Beta posterior of its share (Thompson sampling over a uniform
prior), keyed by the daemon's random seed, the pick and the name. The nearer to one half, the larger
its weight; what was never practised has the weight `floor`, by which all weights are divided: it is
what the core takes for a name without a weight.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rods.analysis.profile import profile
from rods.buffers.log.record_bytes import misfit
from rods.buffers.log.tail import Tail, read
from rods.buffers.run import runfolder
from rods.canonical import keyed_random, rounded
from rods.environments.base import Environment, kept
from rods.episode.diagnosis import failed
from rods.episode.engine import Trace
from rods.extension import Preferring, Record, StepFold
from rods.tasks import AnyTask, Task

NAME = "skills"
FORGOTTEN = 0.001  # what the turns of a function count for, below which it is left out
LEAST = 0.01  # weight of what the policy surely gets right, or surely not
DIGITS = 3  # of a weight on record

Flow = tuple[int, str, int, str]  # turn and function that gives, turn and function that takes


def practised(trace: Trace, task: AnyTask, environments: Any) -> dict[str, list[int]]:
    """Of each function, and pair of them, that turns of an episode needed: how many turns with a
    label did, and how many of these it did not fail. Empty for a task that is judged as a whole."""
    if not isinstance(task, Task):
        return {}
    environment = environments.load(task.environment.name)
    wrong = dict(enumerate(failed(trace, task, environment)))
    went = {
        (turn, call.name): call.name not in wrong[turn]
        for turn in wrong
        for call in task.calls[turn]
    }
    for turn, giver, later, taker in _flows(task, environment):
        if later in wrong:
            good = giver not in wrong.get(turn, ()) and taker not in wrong[later]
            went[later, f"{giver} → {taker}"] = good and went.get(
                (later, f"{giver} → {taker}"), True
            )
    turns = Counter(name for _, name in went)
    well = Counter(name for (_, name), good in went.items() if good)
    return {name: [turns[name], well[name]] for name in sorted(turns)}


def _flows(task: Task, environment: Environment) -> Sequence[Flow]:
    """The calls of a task of which one feeds the other. That shows when the ground truth is run:
    worlds that have to be waited for, or answer otherwise each time, have none."""
    known = _known_flows(environment)
    if (
        task.id not in known
        and environment.features.deterministic
        and not environment.features.waits
    ):
        shape = profile(environment, task)
        known[task.id] = [
            (turn, shape.turns[turn][at].tool, later, shape.turns[later][taking].tool)
            for (turn, at), (later, taking), _ in shape.edges
        ]
    return known.get(task.id, ())


@kept
def _known_flows(environment: Environment) -> dict[str, Sequence[Flow]]:
    """By task, as far as they were asked for."""
    return {}


class Skills(StepFold):
    """The fold. `known`: of each function, and pair of them, how many turns of rollouts needed it
    and how many of these it did not fail, discounted, rounded to 12 decimals. A dictionary that was
    read here stays as it is."""

    def __init__(self, discount: float) -> None:
        self._discount = discount
        self.known: Mapping[str, tuple[float, float]] = {}

    def state(self) -> Any:
        return self.known

    def load(self, state: Any) -> None:
        self.known = {name: (turns, well) for name, (turns, well) in state.items()}

    def apply(self, step: int, groups: Sequence[Record]) -> None:
        turns = Counter[str]()
        well = Counter[str]()
        for told in (rollout.get(NAME, {}) for group in groups for rollout in group["rollouts"]):
            turns.update({name: many for name, (many, _) in told.items()})
            well.update({name: good for name, (_, good) in told.items()})
        known = {}
        for name in sorted({*self.known, *turns}):
            many, good = (self._discount * before for before in self.known.get(name, (0.0, 0.0)))
            if (many := rounded(many + turns[name])) >= FORGOTTEN:
                known[name] = many, rounded(good + well[name])
        self.known = known


def drawing(fold: Skills, config: Any) -> Preferring:
    """How the functions of variants are weighed that are picked after the fold's latest step."""
    known = fold.known
    floor = config.skills.floor
    random_seed = config.random_seeds.daemon

    def weight(pick: str, name: str) -> float:
        turns, well = known[name]
        share = keyed_random(random_seed, NAME, pick, name).betavariate(1 + well, 1 + turns - well)
        drawn: float = max(LEAST, 1 - abs(2 * share - 1)) / floor
        return round(drawn, DIGITS)

    return lambda pick: {name: weight(pick, name) for name in known}


def check(run: Any, findings: Any) -> None:
    """Derives the weights of every pick again. A step that a rewound trainer has taken twice gives
    two: the daemon may have picked after either."""
    fold = Skills(run.config.skills.discount)
    log = Tail(run.path / runfolder.OBSERVATIONS, strict=True)
    after = {0: fold.known}  # the steps so far
    weighed: dict[int, list[Preferring]] = {}  # by step
    for record, groups in log.groups() if run.config.skills.enabled else ():
        if record["kind"] == "start":
            if record["from_step"] not in after:
                raise misfit(
                    runfolder.OBSERVATIONS,
                    record,
                    f"no step {record['from_step']} stands before it",
                )
            fold.known = after[record["from_step"]]
        elif record["kind"] == "step":
            fold.apply(record["step"], groups)
            after[record["step"]] = fold.known
            weighed.setdefault(record["step"], []).append(drawing(fold, run.config))
    for made in read(run.path / runfolder.SEEDS):
        if made["kind"] == "picked":
            derived = [weigh(made["pick"]) for weigh in weighed.get(made["step"], ())]
            said = made.get("preferences", {}).get(NAME)
            if said not in derived if derived else said is not None:
                what = (
                    f"pick {made['pick']} weighs functions otherwise than the observations up to "
                    f"its step do"
                )
                findings.problem(f"{runfolder.SEEDS}, record {made['seq']}", what)
            if derived:
                findings.count("picks whose functions were weighed again")
