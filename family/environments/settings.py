"""What 003's writers add to the configuration: how worlds are written, and the roles of the models
that do it."""

from pydantic import Field

from rods.model_roles import Role, RoleTables
from rods.section import AtLeastOne, Count, Section, Share


class Writing(Section):
    """Models that write worlds and the tasks in them (`rods env write`,
    [generated.md](generated.md))."""

    worlds: AtLeastOne = 8  # in the making at a time
    fewest_tools: int = Field(8, ge=2)  # of a world
    most_tools: int = Field(24, ge=2)  # of a world
    tools_at_once: AtLeastOne = 8  # asked for with one question, at most
    tries: AtLeastOne = 3  # times one question is asked until its answer can be read
    # times that a world goes back to its model with what its controls found
    corrections: Count = 3
    # name of the endpoint asked for embeddings of topics; empty: all are tried, and where none
    # offers them only equal topics are dropped
    embeddings: str = ""
    # cosine of the embeddings of two topics from which the later one is dropped
    alike: float = Field(0.85, gt=0, le=1)
    # of the assessment by a tester and a checker (003 §3.3, which has 100: rules that run find
    # most of what these found); 0: none
    rounds: Count = 24
    rounds_at_once: AtLeastOne = 12  # asked for, and judged, with one question, at most (003: 1)
    # share of rounds that were right, corrected ones played again, from which a world is kept
    threshold: Share = 0.85
    witness_tries: AtLeastOne = 3  # times that an agent sets out to do a task
    witness_calls: AtLeastOne = 24  # calls that it may make each time


class WriterRoles(RoleTables):
    """The roles of models that write worlds and scenarios ([generated.md](generated.md)), a table
    each, such as `[operation.writers.world_tool]`."""

    # whether a task belongs to a domain with a state
    topic_filter: Role = Role(tokens=256, temperature=0.0)
    topic_inference: Role = Role(tokens=512)  # which domain that is
    world_plan: Role = Role(reason=1_000, tokens=4_096)  # tables, rules and tools
    world_state: Role = Role(reason=600, tokens=3_072)  # classes
    # the functions of tools, 512 tokens more for each beside the first
    world_tool: Role = Role(reason=600, tokens=1_536)
    # calls that try tools, 128 tokens more for each beside the first
    world_tester: Role = Role(tokens=512, temperature=1.0)
    # whether these did what they ought to do, the same
    world_checker: Role = Role(reason=1_500, temperature=0.0)
    scenario_state: Role = Role(tokens=4_096)  # the state in which a task begins
    scenario_task: Role = Role(tokens=1_536)  # what is asked for, and who asks
    # the functions that say what has to be true in the end
    scenario_checklist: Role = Role(reason=600, tokens=3_072)
    scenario_solver: Role = Role(tokens=1_024)  # the next calls of an agent that does the task
