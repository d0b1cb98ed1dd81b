from console.api import Evaluation as Evaluation
from console.api import Training as Training
from console.api import evaluate as evaluate
from console.api import open_run as open_run
from console.api import open_training as open_training
from console.api import play as play
from console.api import read_state as read_state
from console.api import score as score
from console.foreign_trainer import OpenEpoch as OpenEpoch
from console.foreign_trainer import merge as merge
from console.foreign_trainer import observe as observe
from rods.tasks import Task as Task
from rods.tasks import read_tasks as read_tasks

__version__: str
