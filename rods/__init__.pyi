from rods.console.api import Evaluation as Evaluation
from rods.console.api import Training as Training
from rods.console.api import evaluate as evaluate
from rods.console.api import open_run as open_run
from rods.console.api import open_training as open_training
from rods.console.api import play as play
from rods.console.api import read_state as read_state
from rods.console.api import score as score
from rods.console.foreign_trainer import OpenEpoch as OpenEpoch
from rods.console.foreign_trainer import merge as merge
from rods.console.foreign_trainer import observe as observe
from rods.errors import InfrastructureError as InfrastructureError
from rods.tasks import Task as Task
from rods.tasks import read_tasks as read_tasks
from rods.trainer.adapters.stream import DrawnTask as DrawnTask
from rods.trainer.adapters.stream import TaskStream as TaskStream
from rods.trainer.adapters.stream import open_stream as open_stream

__version__: str
