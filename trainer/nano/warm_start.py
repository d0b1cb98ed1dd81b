"""nano's warm start: supervised learning on the careless teacher's demonstrations, of tasks that
are composed afresh and are never those of a run. The result is a folder that transformers loads,
found again by the hash of its recipe (docs/nano.md). The demo's comes ready in `weights/`; `python
-m docs.generate.nano_weights` makes it anew when its recipe has changed (two minutes)."""

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rods import dialects
from rods.canonical import content_id, keyed_random
from rods.composing.catalogue import catalogue_for
from rods.config import Config
from rods.episode.engine import Trace
from rods.files import explained, user_cache
from rods.tasks import TASK_TYPES, TaskType
from rods.trainer import torch_settings
from rods.trainer.chat import Chat
from rods.trainer.nano import BATCHES, model as network
from rods.trainer.nano.supervised import Encoded, Progress, encode, fit, in_batches
from rods.trainer.nano.teacher import Teacher
from rods.worlds import desk
from rods.worlds.desk.generator import REGION_TYPES, Size, fresh_tasks
from rods.worlds.sources import PERSONAS, REGIONS

STEPS = 1200  # optimizer steps of the recipe
SEQUENCES = 16  # demonstrations a step
LEARNING_RATE = 0.03  # Muon's, at its peak
REST = 0.4  # AdamW's for embeddings and norms, as a share of it
WARM_UP = 20  # steps of rising learning rate; after them it falls linearly
VOCABULARY_TASKS = 1500  # demonstrations from which the tokenizer's words are taken
CHUNK = 512  # demonstrations written at a time
SHIPPED = Path(__file__).parent / "weights"


def warm_started(config: Config, progress: Progress | None = None) -> Path:
    """The folder of the warm-started policy for `config`; made first if neither `SHIPPED` nor the
    cache has it (`$RODS_CACHE/nano`, else `~/.cache/rods/nano`)."""
    name = recipe(config)
    for folder in (SHIPPED / name, user_cache() / "nano" / name):
        if (folder / "config.json").exists():
            return folder
    return make(config, folder, progress)


def make(config: Config, folder: Path, progress: Progress | None = None) -> Path:
    """Makes the warm-started policy for `config` in `folder`, which another process may make at the
    same time. Raises UserError where that cannot be written."""
    remedy = "set RODS_CACHE to a folder that can be written"
    with explained("cannot keep the warm-started policy", folder.parent, remedy):
        folder.parent.mkdir(parents=True, exist_ok=True)
        making = tempfile.TemporaryDirectory(
            prefix=".making-", dir=folder.parent, ignore_cleanup_errors=True
        )
    with making:
        chat, encoded = demonstrated(config)
        policy = trained(config, chat, encoded, progress)
        with explained("cannot keep the warm-started policy", folder.parent, remedy):
            chat.tokenizer.save_pretrained(making.name)
            policy.save_pretrained(making.name)
        try:
            Path(making.name).rename(folder)
        except OSError:
            # else another process was faster with the same recipe
            if not (folder / "config.json").exists():
                raise
    return folder


def recipe(config: Config) -> str:
    """The content id of everything that shapes the weights; a few demonstrations stand for tasks
    and teacher."""
    policy = config.policy
    settings = [
        BATCHES,
        SEQUENCES,
        LEARNING_RATE,
        REST,
        WARM_UP,
        VOCABULARY_TASKS,
        network.ENTRIES,
        network.TEMPLATE,
    ]
    shaping = {
        "demonstrations": [trace.as_json() for trace in next(_demonstrations(config, 8))],
        "environment": desk.environment().hash,
        "carelessness": policy.carelessness,
        "steps": policy.warm_start_steps or STEPS,
        "random_seed": config.random_seeds.policy,
        "settings": settings,
        "network": [network.LAYERS, network.WIDTH, network.INNER, network.HEADS, network.CONTEXT],
    }
    return content_id(shaping)


def _demonstrations(config: Config, chunk: int) -> Iterator[list[Trace]]:
    """Endless demonstrations of fresh tasks, `chunk` at a time."""
    environment = desk.environment()
    dialect = dialects.load(config.policy.dialect)
    seed = config.random_seeds.policy
    catalogue = catalogue_for(environment)
    teachers = []
    for size, types, careless in shown(config):
        teacher = Teacher(catalogue, environment, dialect, careless, size == "asked")
        teachers.append((teacher, fresh_tasks(seed, "warm start", types, size)))
    for number in itertools.count():
        rng = keyed_random(seed, "teacher", number)
        yield [
            trace
            for teacher, tasks in teachers
            for trace in teacher.demonstrate(
                [task for task, _ in itertools.islice(tasks, chunk // len(teachers))], rng
            )
        ]


def shown(config: Config) -> list[tuple[Size, tuple[TaskType, ...], float]]:
    """The sizes and types of the tasks that are demonstrated in equal shares, and the carelessness
    of each. Of desk-regions the easy tasks are shown without a flaw, the small ones carelessly, and
    the long ones never: what comes of it are a mastered, a boundary and a hopeless region. In
    desk-regions-rare the long ones are shown as carelessly as the small ones, so that they go well
    now and then. Tasks whose users are played are shown with these alone."""
    careless = config.policy.carelessness
    if config.data.tasks in REGIONS:
        rare: list[Size] = (
            ["small", "long"] if config.data.tasks == "desk-regions-rare" else ["small"]
        )
        return [("easy", REGION_TYPES, 0.0), *((size, REGION_TYPES, careless) for size in rare)]
    if config.data.tasks in PERSONAS:
        return [("asked", ("miss_param",), careless)]
    return [("small" if config.data.tasks == "desk-small" else "full", TASK_TYPES, careless)]


def demonstrated(config: Config) -> tuple[Chat, Iterator[list[Encoded]]]:
    """The tokenizer, whose words are those of the first demonstrations, and all demonstrations,
    endlessly."""
    demonstrations = _demonstrations(config, CHUNK)
    first = [next(demonstrations) for _ in range(-(-VOCABULARY_TASKS // CHUNK))]
    messages = [message for traces in first for trace in traces for message in trace.messages]
    texts = (("" if message.role == "assistant" else " ") + message.content for message in messages)
    chat = Chat(network.build_tokenizer(texts), Path("nano"))
    return chat, (
        [encode(chat, trace) for trace in traces]
        for traces in itertools.chain(first, demonstrations)
    )


def trained(
    config: Config, chat: Chat, encoded: Iterator[list[Encoded]], progress: Progress | None = None
) -> Any:
    """The network after the supervised warm start."""
    fresh = network.fresh(chat.tokenizer, config.random_seeds.policy)
    seed = config.random_seeds.policy
    batches = in_batches(chat.pad, encoded, SEQUENCES, keyed_random(seed, "warm start batches"))
    optimizer = torch_settings.make_optimizer("muon", fresh, LEARNING_RATE, REST)
    steps = config.policy.warm_start_steps or STEPS
    fit(fresh, batches, optimizer, steps=steps, warm_up=WARM_UP, progress=progress)
    return fresh
