"""Chooses who plays a task: its world, its user, its judge.

Ground truth, checks and scripts need nobody. A persona is played by the procedural user or by a model. A rubric is
judged by rules over the conversation's calls (`rods.simulation.verifying`) or by a model, and the tools of such a task
are the environment's, or a model's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rods.config import Roles, SimulationSettings
from rods.conversations import RUBRIC_LEVELS, Persona, Rubric
from rods.dialects.base import Dialect
from rods.environments.base import Environment, Instance
from rods.environments.loading import Environments
from rods.episode.drivers import Job
from rods.episode.engine import NeedOutcome, Outcome, Trace
from rods.episode.goals import Goal, WholeGoal, goal_of
from rods.errors import UserError
from rods.interfaces.base import IDENTITY, Interface
from rods.players.line import Line
from rods.players.models import ModelGenerator, Models, ModelUser, ModelVerifier, ModelWorld
from rods.players.recorded import RecordedOutcome, RecordedUser, RecordedWorld
from rods.simulation.generating import Generator
from rods.simulation.tools import SimulatedTool
from rods.simulation.verifying import Conversation, judged, unjudged
from rods.simulation.world import RepositoryEnvironment, as_repository
from rods.tasks import AnyTask, OpenTask

PROCEDURAL = SimulationSettings()


class Players:
    """Those of one run, or of one evaluation. `environments` are its worlds, `settings` say who plays. Models are asked
    through `line`, which whoever lets them play has to open (buffers/playing.py)."""

    def __init__(
        self,
        environments: Environments,
        settings: SimulationSettings = PROCEDURAL,
        roles: Roles | None = None,
        random_seed: int = 0,
    ) -> None:
        self.environments, self.settings = environments, settings
        self.roles, self.random_seed = roles or Roles(), random_seed
        self.line: Line | None = None

    def job(self, task: AnyTask, dialect: Dialect, *, interface: Interface = IDENTITY, max_steps: int) -> Job:
        """The episode of `task`, with whoever plays it. Raises UserError where nobody can."""
        environment, parts = self.environments.load(task.environment.name), dict[str, Any]()
        by_rubric = isinstance(task, OpenTask) and isinstance(task.goal, Rubric)
        if not by_rubric or self.settings.verifier == "procedural":
            parts["goal"] = self._goal(environment, task)
        if isinstance(task, OpenTask) and (modelled := self.modelled(task)):
            tools, models = [environment.tools()[name] for name in task.tools], self.models()
            if "verifier" in modelled:
                parts["goal"] = ModelVerifier(models, task, tools)
            if "user" in modelled:
                parts["user"] = ModelUser(models, task, tools)
            if "tools" in modelled:
                documents = as_repository(environment)
                parts["world"] = lambda: ModelWorld(models, task, documents)
            parts["waits"] = True
        return Job(task, environment, dialect, interface=interface, max_steps=max_steps, **parts)

    def again(self, task: OpenTask, dialect: Dialect, trace: Trace, *, max_steps: int) -> Job:
        """The episode of `trace`, to be played again from its replies: what a model has said is taken from it, and the
        rest is played. Raises UserError as `job`."""
        job, modelled = self.job(task, dialect, max_steps=max_steps), self.modelled(task)
        if "verifier" in modelled:
            job = replace(job, goal=RecordedOutcome(trace))
        if "user" in modelled:
            job = replace(job, user=RecordedUser(trace))
        if "tools" in modelled:
            job = replace(job, world=lambda: RecordedWorld(trace))
        return replace(job, waits=False)

    def modelled(self, task: AnyTask) -> frozenset[str]:
        """The parts of `task` that a model plays: tools, user, verifier."""
        if not isinstance(task, OpenTask):
            return frozenset()
        possible = ["user"] if isinstance(task.user, Persona) else []
        possible += ["tools", "verifier"] if isinstance(task.goal, Rubric) else []
        return frozenset(possible).intersection(self.settings.by_model)

    def generator(self, environment: RepositoryEnvironment, random_seed: int) -> Generator:
        """The model that thinks up tasks over the tools of `environment`."""
        return ModelGenerator(self.models(), environment, random_seed)

    def models(self) -> Models:
        """What asks them, once a line is open."""
        return Models(self._open_line, self.settings, self.roles, self.random_seed)

    def _open_line(self) -> Line:
        if self.line is None:
            raise UserError(
                "models play, and there is no line to them",
                where="[simulation]",
                remedy="let the command that plays open one (buffers.playing), or play without models",
            )
        return self.line

    def _goal(self, environment: Environment, task: AnyTask) -> Goal | WholeGoal:
        if not isinstance(task, OpenTask) or not isinstance(task.goal, Rubric):
            return goal_of(environment, task)
        if why := unjudged(task.goal):
            raise UserError(
                f"its rubric cannot be judged without a model: {why}",
                where=f"task {task.id}",
                remedy='let a model judge ([simulation] verifier = "model"), or judge its rollouts in a trainer of '
                "your own and report them (`rods observe`, kind rubric)",
            )
        return ByRule(task, as_repository(environment).repository.tools)


class ByRule:
    """A `WholeGoal`: the rubric of `task`, by what can be read from the calls. `tools` are all of its world."""

    def __init__(self, task: OpenTask, tools: Mapping[str, SimulatedTool]) -> None:
        self.task, self.tools = task, tools

    def outcome(self, instance: Instance, need: NeedOutcome) -> Outcome:
        steps = [step for turn in need.turns for step in turn.steps]
        made = [pair for step in steps for pair in zip(step.calls, step.results, strict=True)]
        malformed = any(step.error is not None for step in steps)
        found = judged(self.task, self.tools, Conversation([text for text, _ in need.said], made, malformed))
        return Outcome(found.verdict + 1, RUBRIC_LEVELS, (found.reason,))
