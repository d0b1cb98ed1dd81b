"""Desk's generator of tasks: originals for runs, and an endless stream for warm starts.
Deterministic from a seed.

The procedure is that of variants without a seed task: a keyed random shape is planned, given a
world, executed, worded as a whole and put into the form of its type. At least one result feeds a
later call, and at least one turn refers back to an earlier one. `provenance` is that of
`rods.composing.task_types` (its docstring gives the format): the true flow of every argument,
recorded results, recipes, and per turn the traits that a careless policy would trip over.
"""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

from rods.canonical import keyed_random
from rods.composing import bind, planning, task_types, wording
from rods.composing.catalogue import Catalogue
from rods.composing.plan_search import PlanShape
from rods.composing.recipes import read
from rods.composing.records import ComposeError, Draft
from rods.environments.base import Environment
from rods.errors import UserError
from rods.gates.similarity import SimilarityIndex
from rods.gates.texts import style
from rods.tasks import TASK_TYPES, AnyTask, OpenTask, Task, TaskType
from rods.worlds.desk import personas
from rods.worlds.desk.catalogue import catalogue
from rods.worlds.desk.world import environment as desk

TRIES = 20  # candidate plans a task: any that fits will do
REDRAWS = 1_000  # of a task, until it matches none from before
REPAIRS = 4  # patches a world before a task is planned anew
PEOPLE = 0.5  # share of the tasks for which contacts are wanted: most look-ups go through them
CLASSES = ("contacts", "mail", "calendar", "files", "ledger")
# small: what a policy of under a million parameters learns in minutes; easy and long: one step
# easier, and harder; asked: one request, of which a value has to be asked for
Size = Literal["full", "small", "easy", "long", "asked"]
ORIGINALS = read(Path(__file__).parent / "recipes" / "originals.toml")
SMALL_SHOWN = 8  # tools shown with a task of any size but full
# What nano's warm start makes of desk's regions (docs/nano.md). A variant has its seed's depth, so
# it stays in one.
REGIONS: dict[str, Size] = {"mastered": "easy", "boundary": "small", "hopeless": "long"}
# a turn without calls is no long chain
REGION_TYPES: tuple[TaskType, ...] = ("base", "long_context")
T = TypeVar("T", bound=AnyTask)


def generate(
    random_seed: int, train: int, held_out: int, size: Size | Literal["regions"] = "full"
) -> list[Task]:
    """`train` originals, then `held_out` tasks apart from them; the four types in equal shares, or,
    of "regions", the three regions (`REGIONS`, named in the provenance) and both of their types.

    No two tasks are near duplicates (rods.gates.similarity): not in their goal, not in initial
    state, not in a turn's own query. The held-out tasks do not depend on how many originals are
    asked for. One in five of them is for validation, the others for the test. Equal arguments give
    equal bytes.
    """
    return data_set(
        train, held_out, lambda purpose, place: _original(random_seed, purpose, place, size)
    )


def generate_personas(
    random_seed: int, train: int, held_out: int, *, mute: bool = False
) -> list[OpenTask]:
    """As `generate`, but users are played, and know what their query leaves out
    (worlds/desk/personas.py). The users of `mute` originals know nothing: in all else these are the
    same tasks."""

    def draw(purpose: str, place: int) -> OpenTask:
        return personas.played(fresh_task(random_seed, purpose, place, "miss_param", "asked")[0])

    tasks = data_set(train, held_out, draw)
    return [personas.muted(task) if mute and task.split == "train" else task for task in tasks]


def data_set(train: int, held_out: int, draw: Callable[[str, int], T]) -> list[T]:
    """`train` and `held_out` tasks that `draw` gives for a purpose at a place, drawn again where
    they match one from before. One in five held-out ones is for validation. Raises UserError where
    there are no more that differ."""
    index = SimilarityIndex()

    def apart(purpose: str, count: int) -> list[T]:
        tasks: list[T] = []
        for place in range(count):
            candidates = (draw(f"{purpose} {redraw}", place) for redraw in range(REDRAWS))
            task = next((task for task in candidates if index.find(task) is None), None)
            if task is None:
                raise UserError(
                    f"{REDRAWS} drawings gave nothing but near duplicates of {len(index)} tasks",
                    where=f"{purpose} task {place + 1}",
                    remedy="ask for fewer tasks",
                )
            index.add(task)
            tasks.append(task)
        return tasks

    held = apart("held-out", held_out)
    originals = apart("original", train)
    # Types cycle with period 4, so a period of 5 gives each of them its share of the validation
    # tasks.
    splits = ["validation" if place % 5 == 0 else "test" for place in range(held_out)]
    return originals + [
        replace(task, split=split) for task, split in zip(held, splits, strict=True)
    ]


def _original(random_seed: int, purpose: str, place: int, size: Size | Literal["regions"]) -> Task:
    if size != "regions":
        return fresh_task(random_seed, purpose, place, TASK_TYPES[place % len(TASK_TYPES)], size)[0]
    region = tuple(REGIONS)[place % len(REGIONS)]
    type = REGION_TYPES[place % len(REGION_TYPES)]
    task, _ = fresh_task(random_seed, purpose, place, type, REGIONS[region])
    return replace(task, provenance={**task.provenance, "region": region})


def fresh_tasks(
    random_seed: int, purpose: str, types: Sequence[TaskType] = TASK_TYPES, size: Size = "full"
) -> Iterator[tuple[Task, Draft]]:
    """Endlessly many accepted tasks with their drafts, keyed by seed and purpose, cycling through
    `types`."""
    for index in itertools.count():
        yield fresh_task(random_seed, purpose, index, types[index % len(types)], size)


def fresh_task(
    random_seed: int, purpose: str, index: int, type: TaskType, size: Size = "full"
) -> tuple[Task, Draft]:
    """The `index`-th task of that type: the first of its attempts that composes and is accepted by
    the judge."""
    book = _book(size)
    environment = desk()
    for attempt in itertools.count():
        try:
            rng = keyed_random(random_seed, purpose, index, type, attempt)
            task, draft = _compose(book, environment, type, size, rng)
        except ComposeError:
            continue
        if not style(task, book.book.longest + wording.SLACK):
            return task, draft
    raise AssertionError("unreachable: attempts never end")


@cache
def _book(size: Size) -> Catalogue:
    own = catalogue()
    # originals say these in the words that they have always had
    recipes = {**own.recipes, **ORIGINALS.recipes}
    frames = {**own.book.frames, **ORIGINALS.frames}
    vague = own.book.vague if size == "asked" else ORIGINALS.vague
    own = replace(own, recipes=recipes, book=replace(own.book, frames=frames, vague=vague))
    return own if size == "full" else replace(own, shown=SMALL_SHOWN)


def _compose(
    book: Catalogue, environment: Environment, type: TaskType, size: Size, rng: random.Random
) -> tuple[Task, Draft]:
    # the others are as they have always been: their ids are hashes of what they are
    fair = size == "asked"
    usable = frozenset(rng.sample(CLASSES, rng.choice((2, 2, 3))))
    if rng.random() < PEOPLE:
        usable = frozenset(("contacts", *rng.sample(CLASSES[1:], rng.choice((1, 2)))))
    plan_shape = shape(size, type, rng)
    plan = planning.plan(
        book, environment, plan_shape, type, usable=usable, fair=fair, tries=TRIES, rng=rng
    )
    state = bind.fresh_state(book, plan, None, rng)
    choices = rng.getrandbits(64)
    for patches in range(REPAIRS + 1):
        try:
            draft = bind.realise(
                environment, book, plan, state, bind.random_chooser(random.Random(choices))
            )
            break
        except ComposeError as error:
            mended = bind.repair(book, state, error, rng) if patches < REPAIRS else None
            if mended is None:
                raise
            state = mended
    if not fair and not any(
        slot.repeats
        for calls in draft.turns[1:]
        for bound in calls
        for slot in bound.slots.values()
    ):
        raise ComposeError("no_pattern", "no turn refers back to an earlier one")
    texts = wording.rewrite(book, draft, narrative=True, rng=rng)
    task = task_types.apply(book, environment, draft, texts, type, rng, fair=fair)
    if fair:
        personas.played(task)  # or nothing checks what comes of it
    return task, draft


def shape(size: Size, type: TaskType, rng: random.Random) -> PlanShape:
    """How many calls the turns of a task have, and how long its chains of results are. The types
    with a turn without calls get it on top."""
    empty = type in ("miss_func", "miss_param")
    # a request in vain, since a value is missing, and then one or two calls, one feeding the other
    if size == "asked":
        depth = rng.choice((1, 2))
        return PlanShape((0, depth), depth=depth)
    if size == "easy":  # no result feeds another call
        return PlanShape((1, 1), depth=1)
    # three calls at first, which leave the later turns no chance where one is missing
    if size == "long":
        return PlanShape((3, *rng.choice(((2,), (2, 1), (3,)))), depth=3)
    if size == "small":
        counts = [rng.choice((1, 1, 2)) for _ in range(rng.choice((2, 2, 2, 3)))]
        if empty:
            del counts[2:]
        if 2 not in counts:
            counts[rng.randrange(len(counts))] = 2
    else:
        counts = [rng.choice((1, 2, 2, 3)) for _ in range(rng.choice((2, 3, 3, 4)))]
        if empty and len(counts) == 4:
            counts.pop()
    if empty:
        counts.insert(rng.randrange(len(counts)), 0)
    return PlanShape(tuple(counts), depth=2 if size == "small" else rng.choice((2, 2, 2, 3)))
