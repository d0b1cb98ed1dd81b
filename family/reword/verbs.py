"""`rods data reword`: new words for the tasks of a file."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from rods import logs
from rods.buffers.log import disk
from rods.buffers.run.run import guarded_by
from rods.buffers.usage import UsageLog
from rods.canonical import keyed_random, only, without
from rods.commands import Json
from rods.config import Config, read_config
from rods.console.output import print_checked
from rods.daemon.authors.base import Assignment, Rejection, in_thread
from rods.daemon.authors.llm.questions import Asker
from rods.daemon.authors.procedural import IN_FLIGHT
from rods.daemon.pipeline import Pipeline
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.errors import InfrastructureError, UserError
from rods.family.reword.journal import journal
from rods.family.reword.rewording import Rewording, drafted
from rods.gates.ground_truth import replayed
from rods.gates.similarity import SimilarityIndex
from rods.llm import Budget, Client
from rods.tasks import AnyTask, Task, read_tasks, task_lines
from rods.worlds.checking import CheckReport, Fault
from rods.worlds.checking.task_files import Found, Worlds

Outcome = Task | Found
LEFT = "stays as it is"
UNDECIDED = ("infrastructure", "budget_spent")  # failures that say nothing of a task's words


def reword_tasks(
    file: Path,
    /,
    *,
    config: Path,
    out: Path | None = None,
    trust: bool = False,
    as_json: Json = False,
) -> int:
    """Have a language model say what users say in tasks anew, under the gates and the judge that
    variants have to pass (docs/synthesis.md). Calls and worlds stay; a line that could not be said
    anew stays as it is, and is named with the reason. The same command goes on after a stop: what
    was answered is kept beside the result, in OUT.reword. Exits 1 where a line stays as it is;
    where all do, an earlier OUT is left.

    Args:
        file: A JSONL file of tasks.
        config: The TOML file with [[operation.endpoints]], and with [pipeline] and [gates].
        out: The tasks; else FILE.reworded.jsonl, without the ending of FILE.
        trust: Run the code of worlds that the tasks name, whoever wrote it.
    """
    target = out or file.with_suffix(".reworded.jsonl")
    if target.resolve() == file.resolve():
        raise UserError("would be written over", where=file, remedy="name another file by --out")
    logs.configure("rods", "warning")
    settings = read_config(config)
    tasks = read_tasks(file)
    folder = target.with_name(f"{target.name}.reword")
    with Environments(settings.operation.sandbox, file.parent, trust=trust) as environments:
        outcomes = asyncio.run(_reworded(settings, Worlds(environments), tasks, folder))
    left: list[Fault] = []
    for index, outcome in enumerate(outcomes):
        if isinstance(outcome, Task):
            tasks[index] = outcome
        else:
            left.append(Fault(f"{file}: task {tasks[index].id}", *outcome))
    done = len(tasks) - len(left)
    if done or not target.exists():  # never over what an earlier run has said anew
        disk.replace(target, task_lines(tasks))
    facts = {"tasks": len(tasks), "said anew": done, "out": str(target)}
    return print_checked(CheckReport(str(file), tuple(left), facts=facts), as_json)


async def _reworded(
    config: Config, worlds: Worlds, tasks: Sequence[AnyTask], folder: Path
) -> list[Outcome]:
    """What became of `tasks`. `folder` keeps what was answered."""
    operation = config.operation
    settings = config.pipeline.model_copy(
        update={"author": "llm", "rewrite": True, "adversarial": True}
    )
    config = config.model_copy(update={"pipeline": settings})
    near = SimilarityIndex([*tasks, *guarded_by(config)])
    free = asyncio.Semaphore(operation.workers)

    async def reworded(task: Task, world: Environment, client: Client) -> Outcome:
        """Raises InfrastructureError for what is neither the task's fault nor a model's."""
        results, reasons = await in_thread(threads, replayed, world, task)
        if results is None or reasons:
            return "goal.calls", f"{LEFT}: {'; '.join(map(str, reasons))}", "mend the task"
        draft, asked = await in_thread(threads, drafted, world, task, results)
        asker = Asker(
            client,
            client.draw(keyed_random(config.random_seeds.daemon, "backbone", task.id)),
            client.account(task.id),
            settings.answer_tries,
            settings.feedback,
            config.roles,
        )
        author = Rewording(world, asker, settings, threads)
        author.asked = asked
        failed: list[Rejection] = []

        def admit(new: Task) -> list[str]:
            """What its new words come near, and the old ones did not."""
            before = {task.id, *(match.other for match in near.matches(task))}
            reasons = [str(other) for other in near.matches(new) if other.other not in before]
            reasons += ["all is said as in another task, or as before"] * (new.id in near)
            if not reasons:
                near.add(new)
            return reasons

        new = await pipeline.write(
            Assignment(task.id, 0, task, task, 0, draft=draft), author, world, admit, failed.append
        )
        if isinstance(new, str):
            cause = failed[-1].cause
            why = cause.detail if cause else f"{new}: {failed[-1].evidence}"
            if new in UNDECIDED:
                raise InfrastructureError(why)
            return "user.script", f"{LEFT}: {why}", ""
        provenance = {
            **without(task.provenance, "flows", "missing"),  # which hang on the words
            "results": new.provenance["results"],
            "reworded": {"of": task.id, **only(new.provenance, ("model", "prompts", "judge"))},
        }
        return replace(new, provenance=provenance)

    async def outcome(task: AnyTask, client: Client) -> Outcome:
        world = worlds[task.environment.name]
        if isinstance(world, tuple):
            return world
        if not isinstance(task, Task):
            return "goal", f"{LEFT}: no calls tell what its turns ask for", ""
        try:
            async with free:
                return await reworded(task, world, tape(client, task.id))
        except Exception as error:  # noqa: BLE001
            # a world may raise anything, and one task never ends the others
            return "", f"undecided: {error}", "the same command asks again"

    with journal(folder) as tape, ThreadPoolExecutor(IN_FLIGHT + 1) as threads:
        pipeline = Pipeline(config, SimilarityIndex(), threads)
        async with (
            UsageLog(folder, "reword") as usage,
            Client(
                [endpoint.giving_up for endpoint in operation.endpoints],
                budget=Budget(operation.budgets, tokens=usage.tokens, requests=usage.requests),
                sink=usage,
            ) as client,
        ):
            return await asyncio.gather(*(outcome(task, client) for task in tasks))
