"""`[roles]`: how much room each role of the language-model author has, and how its answers are sampled."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from rods.extension import Section

TOKEN = 4  # characters that a token holds at most, on average: what has to fit is checked against it


class Role(Section):
    """What one kind of question is asked with. Roles are the stages of calls (`rods cost`)."""

    reason: int = Field(300, ge=1)  # characters of thinking in a constrained answer; short for weak models
    tokens: int = Field(1024, ge=16)  # of an answer; parameters adds 40 a value, query 200 and rewrite 256 a turn
    temperature: float = Field(0.7, ge=0)  # of sampling
    top_p: float = Field(0.95, gt=0, le=1)  # nucleus of sampling
    # a model's own thinking before the answer: on and off are sent as chat_template_kwargs.enable_thinking
    thinking: Literal["unchanged", "on", "off"] = "unchanged"

    @model_validator(mode="after")
    def _fits(self) -> Role:
        if self.reason > TOKEN * self.tokens:
            raise ValueError(f"a reason of {self.reason} characters does not fit into {self.tokens} tokens")
        return self


class WorldRole(Role):
    world: int = Field(3_000, ge=100)  # characters of the world's state in the prompt; long texts and lists are cut


class ResultsRole(Role):
    # characters of all calls' results in the prompt; longer ones are cut around what later calls take from them
    results: int = Field(6_000, ge=100)


class JudgeRole(ResultsRole, WorldRole):
    pass


class RoleTables(Section):
    """A table a role."""

    @model_validator(mode="before")
    @classmethod
    def _over_defaults(cls, given: Any) -> Any:
        """What is not given for a role is that role's default, not its class's."""
        if not isinstance(given, dict):
            return given
        roles = {name: cls.model_fields[name].default.model_dump() for name in given if name in cls.model_fields}
        return {
            name: {**roles[name], **keys} if name in roles and isinstance(keys, dict) else keys
            for name, keys in given.items()
        }


class Roles(RoleTables):
    """The roles of language models, a table each, such as `[roles.judge]`: the author's (`pipeline.author = "llm"`),
    those that write feedback, and those that play (`[simulation]`)."""

    plan: Role = Role()  # the planner
    state: WorldRole = WorldRole(tokens=2048, world=6_000)  # a new world from the seed's
    parameters: JudgeRole = JudgeRole(tokens=400, world=2_500)  # values of arguments
    patch: WorldRole = WorldRole(world=5_000)  # the error critic
    query: ResultsRole = ResultsRole(tokens=256)  # turns worded one by one
    verification: ResultsRole = ResultsRole()  # whether these say what their calls do
    rewrite: ResultsRole = ResultsRole(tokens=512)  # all turns worded together
    refine: ResultsRole = ResultsRole()  # one turn worded anew
    judge: JudgeRole = JudgeRole(reason=2_000, tokens=2048, results=12_000)  # five criteria
    classify: ResultsRole = ResultsRole(reason=1_000, results=12_000)  # where the fault lies
    adversarial: ResultsRole = ResultsRole()  # what is taken away
    adversarial_verification: ResultsRole = ResultsRole()  # whether it is really missing
    feedback: Role = Role(reason=1_000)  # what answers a failure that repeats (`feedback = "agents"`)
    feedback_judge: Role = Role(reason=1_500, temperature=0.0)  # whether that may be shown
    simulated_task: Role = Role(tokens=1_536)  # a drawn task
    simulated_tool: Role = Role(tokens=1_536)  # what a call returns
    simulated_user: Role = Role(tokens=512)  # what the user says next
    simulated_verifier: Role = Role(reason=1_500, temperature=0.0)  # which criteria a conversation meets


class WriterRoles(RoleTables):
    """The roles of models that write worlds and scenarios ([generated.md](generated.md)), a table each, such as
    `[operation.writers.world_tool]`."""

    topic_filter: Role = Role(tokens=256, temperature=0.0)  # whether a task belongs to a domain with a state
    topic_inference: Role = Role(tokens=512)  # which domain that is
    world_plan: Role = Role(reason=1_000, tokens=4_096)  # tables, rules and tools
    world_state: Role = Role(reason=600, tokens=3_072)  # classes
    world_tool: Role = Role(reason=600, tokens=1_536)  # the function of one tool
    world_tester: Role = Role(tokens=512, temperature=1.0)  # a call that tries a tool
    world_checker: Role = Role(reason=1_500, temperature=0.0)  # whether that call did what it ought to do
    scenario_state: Role = Role(tokens=4_096)  # the state in which a task begins
    scenario_task: Role = Role(tokens=1_536)  # what is asked for, and who asks
    scenario_checklist: Role = Role(tokens=1_536)  # what has to be true in the end
    scenario_check: Role = Role()  # the function of one condition
    scenario_solver: Role = Role(tokens=768)  # the next call of an agent that does the task
