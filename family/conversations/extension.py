"""What logged conversations add to the core: a verb, and a reader of tasks."""

from typing import TYPE_CHECKING, Any

from rods.canonical import JsonMapping

if TYPE_CHECKING:
    from rods.environments.base import Environment
    from rods.family.provides import Provides
    from rods.tasks import Task


def _task(environment: "Environment", record: Any, provenance: JsonMapping) -> "Task":
    from rods.family.conversations.logged import read
    from rods.family.conversations.replaying import task_of

    return task_of(environment, read(record), None, provenance)


PROVIDES: "Provides" = {
    "task_readers": _task,
    "verbs": {
        "data import": ("", "Make tasks of what others have."),
        "data import chats": (
            "rods.family.conversations.verbs:import_chats",
            "Make tasks of logged conversations, whose calls are replayed in a world.",
        ),
    }
}
