"""Demonstrations of desks with house rules, for nano's warm start: none of their rules is one of a
run's world.

The teacher does not know the rules of a world. Its first call that breaks one is refused; in
`RECOVERS` of the episodes it then tries again, in the others it gives the turn up. Told by a hint
it keeps the rule, and minds it from there on; else it tries `GUESSES` of the rules that the tool
may have in any world, until one is right. What an episode is shown is drawn independently of that:
everything as it is, hints, SEAL's interface, or both. In `KNOWS` of the episodes users say the
rules that their requests need, and the teacher keeps them from the start. In `carelessness` of the
turns it has the flaws of desk's teacher (trainer/nano/teacher.py), which are never made good."""

import itertools
import random
from collections.abc import Collection, Iterator, Sequence

from rods import interfaces
from rods.calls import Call
from rods.canonical import keyed_random
from rods.composing.catalogue import catalogue_for
from rods.config import Stage
from rods.dialects import Dialect
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedText, Reply, Trace
from rods.episode.goals import goal_of
from rods.family.house_rules.house import REFUSED, House
from rods.family.house_rules.keeping import keeping, kept, with_rules
from rods.family.house_rules.rule import possible
from rods.interfaces import Interface
from rods.tasks import Task
from rods.trainer.nano import model
from rods.trainer.nano.teacher import DONE, Teacher
from rods.worlds import desk
from rods.worlds.desk.generator import fresh_tasks

# worlds in a list of demonstrations, and tasks drawn for each
WORLDS = 64
EACH = 8
RECOVERS = 0.9
KNOWS = 0.3
GUESSES = 3
# stages as which episodes are shown, and their shares
SHOWN: tuple[tuple[dict[str, str], float], ...] = (
    ({}, 0.4),
    ({"feedback": "hints"}, 0.4),
    ({"interface": "seal-full", "evolve": "none"}, 0.1),
    ({"feedback": "hints", "interface": "seal-full", "evolve": "none"}, 0.1),
)
# of the tokenizer
ENTRIES = model.ENTRIES
PIECES = model.PIECES
# what shapes the weights besides
RECIPE = [WORLDS, EACH, RECOVERS, KNOWS, GUESSES, [list(shown) for shown in SHOWN]]


def demonstrations(
    random_seed: int, dialect: Dialect, carelessness: float, worlds: int = WORLDS, each: int = EACH
) -> Iterator[list[Trace]]:
    """Endless demonstrations, each list in other worlds."""
    tasks = (task for task, _ in fresh_tasks(random_seed, "house warm start", size="small"))
    teacher = Teacher(catalogue_for(desk.environment()), desk.environment(), dialect, carelessness)
    aids = [interfaces.load(Stage.model_validate(stage), dialect.name) for stage, _ in SHOWN]
    for number in itertools.count():
        rng = keyed_random(random_seed, "house teacher", number)
        shown: list[Trace] = []
        for world in range(worlds):
            house = House(random_seed * 1_000_003 + number * WORLDS + world, taught=True)
            shown += _in_world(house, list(itertools.islice(tasks, each)), teacher, aids, rng)
        rng.shuffle(shown)
        yield shown


def _in_world(
    house: House,
    plain: Sequence[Task],
    teacher: Teacher,
    aids: Sequence[Interface],
    rng: random.Random,
) -> list[Trace]:
    teacher.watch(plain)
    jobs = []
    left = []
    for task in plain:
        if (case := kept(house, task)) is None:
            continue
        knows = rng.random() < KNOWS
        shown, (stage, _) = rng.choices(
            [*zip(aids, SHOWN, strict=True)], [share for _, share in SHOWN]
        )[0]
        case = with_rules(house, case) if knows else case
        jobs.append(Job(case, house, teacher.dialect, goal_of(house, case), interface=shown))
        left.append(
            _replies(house, task, knows, rng.random() < RECOVERS, "feedback" in stage, teacher, rng)
        )

    def complete(waiting: Sequence[tuple[int, NeedText]]) -> list[Reply]:
        return [Reply(next(left[job])) for job, _ in waiting]

    return run_lockstep(jobs, complete)


def _replies(
    house: House,
    task: Task,
    knows: bool,
    recovers: bool,
    hinted: bool,
    teacher: Teacher,
    rng: random.Random,
) -> Iterator[str]:
    """What the teacher says in the episode of a task whose calls are plain desk's."""
    instance = house.reset(task.state)
    minded = set(house.rules) if knows else set[str]()
    words = set[str]()
    for turn in range(len(task.script)):
        calls, answer = teacher.plan(task, turn, frozenset(words), False, rng)
        for call in calls:
            wanted = keeping(instance, call) if call.name in task.tools_at(turn) else [call]
            tries = [wanted]
            new = wanted != [call] and call.name not in minded
            if new:
                yield teacher.dialect.write([call])
                tries = (
                    ([wanted] if hinted else _guessed(call, task.tools_at(turn), rng))
                    if recovers
                    else []
                )
            for made in itertools.chain.from_iterable(tries):
                result = instance.call(made)
                words |= set(result.text.replace('"', " ").split())
                yield teacher.dialect.write([made])
                if made.name == call.name and result.value != REFUSED.value:
                    break
            else:
                answer = DONE
                break
            minded |= {call.name} if new else set()
        yield teacher.dialect.answer(answer)


def _guessed(call: Call, visible: Collection[str], rng: random.Random) -> list[Sequence[Call]]:
    """Calls that would keep to one of the tool's possible rules each, of those that ask for no
    hidden tool."""
    fitting = [rule for rule in possible()[call.name] if not rule.first or rule.first in visible]
    return [rule.kept_by(call) for rule in rng.sample(fitting, min(GUESSES, len(fitting)))]
