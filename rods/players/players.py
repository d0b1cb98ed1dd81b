"""Chooses who plays a task: its world, its user, its judge.

Ground truth, checks and scripts need nobody. A persona is played by the procedural user, a rubric is judged by rules
over the conversation's calls (`rods.simulation.verifying`), and the environment answers calls.
"""

from __future__ import annotations

from collections.abc import Mapping

from rods.conversations import RUBRIC_LEVELS, Rubric
from rods.dialects.base import Dialect
from rods.environments.base import Environment, Instance
from rods.environments.loading import Environments
from rods.episode.drivers import Job
from rods.episode.engine import NeedOutcome, Outcome
from rods.episode.goals import Goal, WholeGoal, goal_of
from rods.errors import UserError
from rods.interfaces.base import IDENTITY, Interface
from rods.simulation.tools import SimulatedTool, from_environment
from rods.simulation.verifying import Conversation, judged, unjudged
from rods.simulation.world import RepositoryEnvironment
from rods.tasks import AnyTask, OpenTask


class Players:
    """Those of one run, or of one evaluation. `environments` are its worlds."""

    def __init__(self, environments: Environments) -> None:
        self.environments = environments

    def job(self, task: AnyTask, dialect: Dialect, *, interface: Interface = IDENTITY, max_steps: int) -> Job:
        """The episode of `task`, with whoever plays it. Raises UserError where nobody can."""
        environment = self.environments.load(task.environment.name)
        return Job(task, environment, dialect, self.goal(environment, task), interface=interface, max_steps=max_steps)

    def goal(self, environment: Environment, task: AnyTask) -> Goal | WholeGoal:
        """What the episodes of `task` are judged by, to be shared by them. Raises UserError for a rubric that nobody
        here judges."""
        if not isinstance(task, OpenTask) or not isinstance(task.goal, Rubric):
            return goal_of(environment, task)
        if why := unjudged(task.goal):
            raise UserError(
                f"its rubric cannot be judged without a model: {why}",
                where=f"task {task.id}",
                remedy="judge its rollouts in a trainer of your own and report them (`rods observe`, kind rubric)",
            )
        return ByRule(task, documented(environment))


class ByRule:
    """A `WholeGoal`: the rubric of `task`, by what can be read from the calls. `tools` are all of its world."""

    def __init__(self, task: OpenTask, tools: Mapping[str, SimulatedTool]) -> None:
        self.task, self.tools = task, tools

    def outcome(self, instance: Instance, need: NeedOutcome) -> Outcome:
        found = judged(self.task, self.tools, conversation(need))
        return Outcome(found.verdict + 1, RUBRIC_LEVELS, (found.reason,))


def conversation(need: NeedOutcome) -> Conversation:
    """What a judge reads of an episode that is over."""
    steps = [step for turn in need.turns for step in turn.steps]
    made = [pair for step in steps for pair in zip(step.calls, step.results, strict=True)]
    return Conversation([text for text, _ in need.said], made, any(step.error is not None for step in steps))


def documented(environment: Environment) -> Mapping[str, SimulatedTool]:
    """The tools of any environment as documents; what they do is known of a repository's alone."""
    if isinstance(environment, RepositoryEnvironment):
        return environment.repository.tools
    return from_environment(environment).tools
