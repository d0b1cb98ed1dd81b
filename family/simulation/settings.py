"""What simulated conversations add to the configuration: who plays them, which tasks are drawn for
steps, and how difficult these are."""

from typing import Literal, get_args

from pydantic import Field, model_validator

from rods.section import AtLeastOne, Count, Section, Share

DRAWN = "drawn.jsonl"  # in a run folder: tasks that were drawn for a step, outside of the pool

Player = Literal["procedural", "model"]
# of a drawn task, that a policy is not told (001 §4.2)
Information = Literal["intent", "persona", "expected"]


class SimulationSettings(Section):
    """Who plays what nothing executes: personas, and tasks with a rubric (001 §2.2;
    docs/trustee.md). Models that play stand under [[operation.players]]."""

    # of tasks with a rubric; procedural: their environment answers, as for other tasks
    tools: Player = "procedural"
    user: Player = "procedural"  # of tasks with a persona
    # of tasks with a rubric; procedural: rules over the calls that were made
    verifier: Player = "procedural"
    generator: Player = "procedural"  # who thinks up drawn tasks
    # tools=model: answers that contradict earlier ones are refused; false: the paper's stateless
    ledger: bool = True
    # what a model that plays tools is told of the task (001 eq. 7)
    tools_told: tuple[Literal["intent"], ...] = ("intent",)
    # and the user (eq. 8)
    user_told: tuple[Literal["intent", "persona"], ...] = ("intent", "persona")
    # and the verifier (eq. 10)
    verifier_told: tuple[Information, ...] = ("intent", "persona", "expected")
    tries: AtLeastOne = 4  # how often a question is asked until its answer can be used

    @property
    def by_model(self) -> tuple[str, ...]:
        """The roles that a model plays."""
        return tuple(
            name
            for name in ("tools", "user", "verifier", "generator")
            if getattr(self, name) == "model"
        )


class TaskSource(Section):
    """Which tasks fill the slots of a batch: those of the pool (004), tasks drawn for the step from
    a repository of tool documents (001; docs/trustee.md), or shares of both."""

    # share of a batch's slots whose tasks are drawn; the pool has the others
    drawn: Share = 0.0
    epoch_steps: AtLeastOne = 20  # drawn = 1: steps from one merge to the next
    # whose tools: `repository`, the project's own, or `folder/` of tool documents
    repository: str = "repository"


# What makes a drawn task more or less difficult (001 §2.3.1; family/simulation/difficulty.py).
Dimension = Literal["tools", "calls", "turns", "system", "persona", "ambiguity", "criteria"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)


class DifficultyRules(Section):
    """How difficult drawn tasks are (001 §2.3, D): a number from 1 to 100 that follows the mean
    reward, −1 to 1, of the last step's drawn tasks."""

    adaptive: bool = True  # false: the highest level of everything, always (001 §4.3, "w/o curr.")
    step: Count = 3  # by how much it rises or falls (001 D.4)
    up_above: float = Field(0.5, ge=-1, le=1)  # mean reward above which it rises (001 D.4)
    down_below: float = Field(0.0, ge=-1, le=1)  # mean reward below which it falls (001 D.4)
    # share of the tasks that draw tools, calls, turns, persona and ambiguity from their lowest to
    # the current level
    soft: Share = 0.5
    most_tools: AtLeastOne = 10  # tools that a task offers at the highest level (001 D.4)
    # texts of the user at the highest level; calls and replies follow (001 D.4)
    most_turns: AtLeastOne = 3
    # dimensions that stay at their highest level (the ablations of 001 §4.3)
    hardest: tuple[Dimension, ...] = ()

    @model_validator(mode="after")
    def _thresholds(self) -> "DifficultyRules":
        if self.down_below > self.up_above:
            raise ValueError(
                f"down_below ({self.down_below}) must not lie above up_above ({self.up_above})"
            )
        return self
