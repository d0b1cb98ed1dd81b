"""Desk's tasks with a played user: a request that leaves out one value, which the user says when
asked about it.

They are made of scripted tasks of the type miss_param that consist of one request (the generator's
size `asked`): its blurred text is the query, the sentence that supplies the value is what the user
knows, and the checks say what the ground truth changes in the world. No tool shows the value, so it
has to be asked for, or guessed.
"""

from dataclasses import replace

from rods.composing.records import ComposeError
from rods.conversations import Checks, Persona
from rods.tasks import AnyTask, OpenTask, Task
from rods.worlds.desk import checks
from rods.worlds.desk.world import environment as desk

TURNS = 3  # texts of the user at most: its query, and two answers


def played(task: Task) -> OpenTask:
    """The task with a played user that asks for the same as the scripted `task`. Its provenance has
    the ground truth (`calls`) and what is left out (`missing`: an item of
    rods.composing.task_types).

    Raises ComposeError("no_pattern") where no check says what the calls change, they change
    nothing, or they serve two requests, of which the second may undo what the value was for."""
    if len(set(task.provenance["recipes"][1])) > 1:
        raise ComposeError("no_pattern", "two requests in one", turn=1)
    (gap,) = task.provenance["missing"]
    query, supplied = task.script
    _, calls = task.calls
    instance = desk().reset(task.state)
    before = instance.snapshot()
    for call in calls:
        instance.call(call)
    wanted = checks.brought(before, instance.snapshot())
    if not wanted:
        raise ComposeError("no_pattern", "no check says what the calls change", turn=1)
    return OpenTask(
        environment=task.environment,
        type="base",
        user=Persona(f"{query} {supplied}", query, {gap["domain"]: supplied}, turns=TURNS),
        goal=Checks(wanted),
        tools=task.tools,
        state=task.state,
        split=task.split,
        provenance={"calls": [call.as_json() for call in calls], "missing": dict(gap)},
    )


def muted(task: AnyTask) -> OpenTask:
    """The same task of a user who knows nothing of what its query leaves out."""
    assert isinstance(task, OpenTask) and isinstance(task.user, Persona)
    return replace(task, user=replace(task.user, knows={}), id="")
