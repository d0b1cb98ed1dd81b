"""`rods data select`: which worlds of a file of tasks are trained on: so many, others than in
another file, those most or least like the held-out worlds, tasks of one mode (003 §5.1, §5.3 to
§5.5).

Held-out tasks stay as they are, so that what is trained on different selections is scored on the
same. How alike two worlds are is the cosine of the words of their tools' names and of their tasks'
documentation (`system`), each word weighted by how few of the worlds have it (tf-idf). 003 compares
embeddings of topics and tools. A world is as like the held-out ones as it is on average to each of
them.
"""

import math
import operator
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from cyclopts.types import NonNegativeInt

from rods.canonical import keyed_random
from rods.commands import Json
from rods.console.output import RandomSeed
from rods.console.verbs.data import write_tasks
from rods.conversations import Persona
from rods.errors import UserError
from rods.tasks import HELD_OUT_SPLITS, AnyTask, read_tasks

Alike = Literal["most", "least"]
ConversationMode = Literal["told", "asked"]
WORD = re.compile(r"[a-z]+")


def select_tasks(
    file: Path,
    out: Path,
    /,
    *,
    worlds: NonNegativeInt = 0,
    without: Path | None = None,
    mode: ConversationMode | None = None,
    alike: Alike | None = None,
    random_seed: RandomSeed = 0,
    as_json: Json = False,
) -> None:
    """Choose the worlds of a file that are trained on. Held-out tasks are kept as they are.

    Worlds come by a draw from `random_seed` of which fewer are a part of more, or with `alike` by
    how like they are to the held-out ones. Raises UserError where there are not so many worlds, or
    none is held out to compare with.

    Args:
        file: A JSONL file of tasks in many worlds.
        out: The JSONL file of tasks to write.
        worlds: In how many worlds training tasks are kept; 0: all.
        without: Another such file: no world that it trains on.
        mode: Only tasks whose user says all at once, or is asked.
        alike: The worlds most or least like the held-out, not drawn ones.
    """
    other = () if without is None else read_tasks(without)
    tasks = read_tasks(file)
    barred = {task.environment.name for task in other if task.split not in HELD_OUT_SPLITS}
    trained = [
        task
        for task in tasks
        if task.split not in HELD_OUT_SPLITS and task.environment.name not in barred
    ]
    candidates = [
        task
        for task in trained
        if mode in (None, "asked" if isinstance(getattr(task, "user", None), Persona) else "told")
    ]
    names = sorted({task.environment.name for task in candidates})
    if not names or len(names) < worlds:
        raise UserError(
            f"{len(names)} worlds have such training tasks, {worlds or 'some'} are asked for",
            where="--worlds",
            remedy="ask for fewer, or generate more",
        )
    if alike is None:
        names.sort(key=lambda name: keyed_random(random_seed, "worlds", name).random())
    else:
        scores = likeness(tasks)
        names.sort(key=lambda name: (-scores[name] if alike == "most" else scores[name], name))
    chosen = set(names[: worlds or None])
    ids = {task.id for task in candidates if task.environment.name in chosen}
    kept = [task for task in tasks if task.id in ids or task.split in HELD_OUT_SPLITS]
    write_tasks(kept, out, as_json)


def likeness(tasks: Sequence[AnyTask]) -> dict[str, float]:
    """How like each training world is to the held-out ones, in [0, 1] to 12 decimals. Raises
    UserError without any."""
    firsts = {task.environment.name: task for task in reversed(tasks)}
    texts = {
        name: Counter(WORD.findall(" ".join((*task.tools, task.system)).lower()))
        for name, task in firsts.items()
    }
    found_in = Counter(word for text in texts.values() for word in text)
    vectors = {
        name: [text[word] * math.log(len(texts) / times) for word, times in found_in.items()]
        for name, text in texts.items()
    }
    others = {task.environment.name for task in tasks if task.split in HELD_OUT_SPLITS}
    if not others:
        raise UserError(
            "no world is held out to compare with",
            where="--alike",
            remedy="generate with --held-out",
        )
    trained = {task.environment.name for task in tasks if task.split not in HELD_OUT_SPLITS}
    return {
        name: round(
            math.fsum(cosine(vectors[name], vectors[other]) for other in others) / len(others), 12
        )
        for name in trained
    }


def cosine(vector: Sequence[float], other: Sequence[float]) -> float:
    """0 where one of them says nothing, or they are not of one kind."""
    lengths = math.hypot(*vector) * math.hypot(*other)
    alike = lengths and len(vector) == len(other)
    return math.fsum(map(operator.mul, vector, other)) / lengths if alike else 0.0
