from rods.console.api import (
    Evaluation as Evaluation,
    Training as Training,
    evaluate as evaluate,
    open_run as open_run,
    open_training as open_training,
    play as play,
    read_state as read_state,
    score as score,
)
from rods.console.foreign_trainer import OpenEpoch as OpenEpoch, merge as merge, observe as observe
from rods.errors import InfrastructureError as InfrastructureError
from rods.tasks import Task as Task, read_tasks as read_tasks
from rods.trainer.adapters.stream import (
    DrawnTask as DrawnTask,
    TaskStream as TaskStream,
    open_stream as open_stream,
)

__version__: str
