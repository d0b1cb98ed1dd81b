from console.api import Evaluation as Evaluation
from console.api import Training as Training
from console.api import evaluate as evaluate
from console.api import open_training as open_training
from console.api import play as play
from console.api import read_state as read_state
from rods.tasks import Task as Task
from rods.tasks import read_tasks as read_tasks

__version__: str
