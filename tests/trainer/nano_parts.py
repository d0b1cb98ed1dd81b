"""A nano small and untrained enough for tests, and desk tasks to roll out with it."""

from functools import cache
from pathlib import Path

from rods import config, dialects
from rods.episode.drivers import Job
from rods.episode.goals import GroundTruth
from rods.tasks import Task
from rods.trainer.chat import Chat
from rods.trainer.engines.local import LocalEngine
from rods.trainer.nano import model
from rods.worlds import desk
from tests.environments import load


@cache
def tasks() -> tuple[Task, ...]:
    return tuple(desk.generate(3, 8, 0, "small"))


def chat() -> Chat:
    texts = [f" {text}" for task in tasks() for text in task.script]
    tools = dialects.load("compact").system(list(load("desk").tools().values()))
    return Chat(model.build_tokenizer([*texts, f" {tools}", "done"]), Path("nano"))


def engine(**limits: object) -> LocalEngine:
    """Random weights; every fifth token ends a reply, so that episodes pass through all of their
    turns."""
    talk = chat()
    talk.ends = frozenset(range(0, len(talk.tokenizer), 5)) | talk.ends
    chosen = {"max_reply_tokens": 12, "max_context_tokens": 400, **limits}
    return LocalEngine(model.fresh(talk.tokenizer, 1), talk, config.Rollouts.model_validate(chosen))


def saved(folder: Path) -> Path:
    """A model with random weights as a folder, for `policy.kind = "transformers"`: nothing has to
    be warmed up."""
    talk = chat()
    model.fresh(talk.tokenizer, 1).save_pretrained(folder)
    talk.tokenizer.save_pretrained(folder)
    return folder


def jobs(rollouts: int = 1) -> list[Job]:
    world = load("desk")
    dialect = dialects.load("compact")
    return [
        job
        for task in tasks()
        for job in [Job(task, world, dialect, GroundTruth(world, task), max_steps=3)] * rollouts
    ]
