"""Tasks that are drawn for slots of a step, outside of the pool: on record in drawn.jsonl before
anybody sees them, by step, slot and the difficulty that the steps before give. A start that goes
back takes what is on record."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict

from rods.buffers.audit.rederivation import Findings
from rods.buffers.folds.observations import Observations
from rods.buffers.log.parts import Lookup, last_of
from rods.buffers.log.record_bytes import record
from rods.buffers.log.tail import Tail, read
from rods.buffers.log.writer import LogWriter
from rods.buffers.run.run import Run
from rods.canonical import keyed_random
from rods.environments.base import reference
from rods.environments.loading import Environments
from rods.errors import UserError
from rods.family.simulation.difficulty import Difficulty, levels
from rods.family.simulation.generating import TRIES, Generator, Wanted, draw_task, open_task
from rods.family.simulation.models import ModelGenerator
from rods.family.simulation.players import simulation_of
from rods.family.simulation.settings import DRAWN
from rods.family.simulation.world import RepositoryEnvironment
from rods.gates.similarity import SimilarityIndex, contamination
from rods.tasks import AnyTask

# step, slot of its batch (from 0), difficulty: what a task is drawn once for
Place = tuple[int, int, int]


def difficulty_of(observations: Observations) -> Difficulty:
    """The difficulty that the steps so far give."""
    fold = observations.folds["simulation"]
    assert isinstance(fold, Difficulty)
    return fold


class DrawnSource:
    """A `rods.buffers.folds.slot_sources.TaskSource`, which follows drawn.jsonl: in memory stay two
    numbers a task, the contents on the disk."""

    log = DRAWN

    def __init__(self, run: Run, strict: bool = False) -> None:
        self.run = run
        self.path = run.path / DRAWN
        self.generate: Generator | None = None  # made when the first task is wanted
        self.seqs: dict[Place, int] = {}
        self._by_id: dict[str, int] = {}
        self._tail, self._records = Tail(self.path, strict=strict), Lookup(self.path)
        self._writer: LogWriter | None = None  # from the first task on

    def poll(self) -> None:
        """Reads on."""
        for drawn in self._tail.records():
            self.seqs.setdefault((drawn["step"], drawn["slot"], drawn["difficulty"]), drawn["seq"])
            self._by_id.setdefault(str(drawn["task"]["id"]), drawn["seq"])

    def task(self, task_id: str) -> AnyTask:
        if task_id not in self._by_id:
            self.poll()
        return AnyTask.from_json(self._records[self._by_id[task_id]]["task"])

    def _at(self, place: Place) -> AnyTask:
        """What was drawn there, as far as it was read. Raises KeyError where nothing was, or damage
        took it."""
        return AnyTask.from_json(self._records[self.seqs[place]]["task"])

    def draw(
        self,
        step: int,
        slots: Sequence[int],
        observations: Observations,
        held: Callable[[], AbstractContextManager[None]],
    ) -> list[AnyTask]:
        difficulty = difficulty_of(observations).value
        config = self.run.config
        self.poll()
        wanted = [
            Wanted(
                step,
                slot,
                difficulty,
                levels(config.difficulty, difficulty, config.random_seeds.drawn, step, slot),
            )
            for slot in slots
            if (step, slot, difficulty) not in self.seqs
        ]
        if wanted:
            self.generate = self.generate or guarded_generator(self.run)
            records = [
                record(
                    "drawn", step=step, slot=asked.slot, difficulty=difficulty, task=task.as_json()
                )
                for asked, task in zip(wanted, self.generate(wanted), strict=True)
            ]
            with held():
                self._writer = self._writer or LogWriter(
                    self.path, part_bytes=config.operation.log_part_bytes
                )
                self._writer.append(records)
                self.poll()
        return [self._at((step, slot, difficulty)) for slot in slots]

    def lacking(self, slots: Sequence[int], observations: Observations) -> str:
        if (faced := difficulty_of(observations).faced) is None:
            return ""
        self.poll()
        end = last_of(self.path)
        if end is not None and end["seq"] != len(self.seqs):
            return ""  # damage took some, and `rods recover` said so
        missing = [slot for slot in slots if (faced.step, slot, faced.difficulty) not in self.seqs]
        return (
            f"it lacks {len(missing)} of the tasks that step {faced.step} was made of"
            if missing
            else ""
        )

    def differs(self, step: int, slot: int, task_id: str, observations: Observations) -> str:
        faced = difficulty_of(observations).faced
        assert faced is not None, "its own groups were folded"
        self.poll()
        try:
            drawn = self._at((step, slot, faced.difficulty)).id
        except (KeyError, ValueError):
            drawn = "none"
        return (
            "" if drawn == task_id else f"at difficulty {faced.difficulty} {drawn} was drawn there"
        )

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def drawn_from(name: str, environments: Environments) -> RepositoryEnvironment:
    """The environment whose tools tasks are drawn over. Raises UserError where it is none of tool
    documents."""
    environment = environments.load(name)
    if not isinstance(environment, RepositoryEnvironment):
        raise UserError(
            f"{name!r} has no tool repository to draw tasks from",
            where="source.repository",
            remedy="use `repository`, or `folder/`, a folder of tool documents of your own "
            "(docs/trustee.md)",
        )
    return environment


def guarded_generator(run: Run) -> Generator:
    """Who draws the tasks of a run: one that matches a guarded task is drawn again, by another
    random seed. Raises UserError where the repository cannot be read."""
    config = run.config
    held_out = SimilarityIndex(run.guarded if config.gates.contamination else ())
    first = generator(run)

    def generate(wanted: Sequence[Wanted]) -> Sequence[AnyTask]:
        tasks = list(first(wanted))
        for attempt in range(1, TRIES):
            if not (
                matching := [
                    place for place, task in enumerate(tasks) if contamination(task, held_out)
                ]
            ):
                return tasks
            random_seed = keyed_random(
                config.random_seeds.drawn, "drawn again", attempt
            ).getrandbits(63)
            again = generator(run, random_seed)([wanted[place] for place in matching])
            for place, task in zip(matching, again, strict=True):
                tasks[place] = task
        raise UserError(
            f"{TRIES} drawings of a task match guarded ones",
            where="[source]",
            remedy="draw from another repository, or guard fewer benchmarks",
        )

    return generate


def generator(run: Run, random_seed: int | None = None) -> Generator:
    """The same without a guard; `random_seed`: other than the run's."""
    config = run.config
    environment = drawn_from(config.source.repository, run.environments)
    random_seed = config.random_seeds.drawn if random_seed is None else random_seed
    if config.simulation.generator == "model":
        return ModelGenerator(simulation_of(run.players), environment, random_seed)
    repository = environment.repository
    named = reference(environment)
    return lambda wanted: [
        open_task(draw_task(repository, asked.levels, random_seed, asked.step, asked.slot), named)
        for asked in wanted
    ]


def verify_drawn(run: Run, findings: Findings, replay: bool) -> None:
    """Whether every task was drawn once for its place, with the levels that its difficulty gives;
    with `replay` also whether the generator without a model draws the same task again. That steps
    were made of them is checked where steps are (rods.buffers.audit.verify)."""
    config = run.config
    places = set[Place]()
    # what a model thought up stands in the record alone
    by_rule = config.simulation.generator == "procedural"
    again = guarded_generator(run) if replay and by_rule and config.source.drawn else None
    for drawn in read(run.path / DRAWN):
        where = f"{DRAWN}, record {drawn['seq']}"
        findings.count("drawn tasks")
        step, slot, difficulty = place = drawn["step"], drawn["slot"], drawn["difficulty"]
        if place in places:
            findings.problem(
                where, f"slot {slot} of step {step} at difficulty {difficulty} was drawn before"
            )
        places.add(place)
        try:
            task = AnyTask.from_json(drawn["task"])
            wanted = Wanted(
                *place, levels(config.difficulty, difficulty, config.random_seeds.drawn, step, slot)
            )
        except ValueError as error:
            findings.problem(where, f"is no task that could be drawn: {error}")
            continue
        if task.provenance.get("levels") != asdict(wanted.levels):
            findings.problem(where, f"its levels are not those of difficulty {difficulty}")
        elif again is not None and next(iter(again([wanted]))).id != task.id:
            findings.problem(where, "the generator draws another task there")
