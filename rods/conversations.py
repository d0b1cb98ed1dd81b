"""What a conversation has besides its world: who talks (a script, or a persona that is played),
what it is judged by as a whole (checks, or a rubric), how long it may be. `rods.tasks` reads them
from a task's record."""

from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Annotated

from pydantic import ConfigDict, Field, StrictInt

from rods.calls import Call
from rods.canonical import JsonObject, Texts, frozen, present

PERSONA_TURNS = 8  # texts of a played user at most, where its task does not say
RUBRIC_LEVELS = 2  # what a rubric gives at most
CLOSED = ConfigDict(extra="forbid")  # of records: they have no other fields
Words = Annotated[str, Field(pattern=r"\S")]  # a text that is not blank


@frozen
class Script:
    """A user whose texts are written down."""

    texts: Texts  #: `user.script` in a record: what the user says, one text a turn

    def __post_init__(self) -> None:
        if not self.texts:
            raise ValueError("'user.script' has no turns; a task needs at least one")

    def as_json(self) -> JsonObject:
        return {"script": list(self.texts)}


@frozen
class Persona:
    """A user who is played (001 §2.2.2). It opens with `query` and then answers the policy; an
    empty answer ends the conversation. Everything but the query only who plays it, and who judges,
    is told."""

    __pydantic_config__ = CLOSED
    intent: str  #: what it wants in the end
    query: str  #: its first text
    #: topic → what it says when the policy asks about that
    knows: Mapping[str, Words] = field(default_factory=dict)
    manner: str = ""  #: how it talks
    turns: StrictInt = PERSONA_TURNS  #: its texts at most, the query among them; at least 1
    further: tuple[Words, ...] = ()  #: what it asks for once the query is served, in order

    def __post_init__(self) -> None:
        if not self.intent.strip() or not self.query.strip():
            raise ValueError("a persona needs an 'intent' and a 'query' that are not blank")
        if self.turns < 1:
            raise ValueError(f"'user.persona.turns' is {self.turns}; the query alone is one")

    def as_json(self) -> JsonObject:
        wants = {"intent": self.intent, "query": self.query, "further": list(self.further)}
        fields = {**wants, "knows": dict(self.knows), "manner": self.manner, "turns": self.turns}
        return {"persona": {name: value for name, value in fields.items() if value}}


@frozen
class Checks:
    """A goal of named check functions of the environment, each asked once, of the final state: so
    many of all hold."""

    calls: tuple[Call, ...]  #: `goal.checks` in a record: at least one

    def __post_init__(self) -> None:
        if not self.calls:
            raise ValueError("'goal.checks' is empty; a goal needs at least one check")

    def as_json(self) -> JsonObject:
        return {"checks": [call.as_json() for call in self.calls]}


@frozen
class Rubric:
    """A goal of criteria in words, by which somebody judges the whole conversation: 0, 1 or 2 of 2
    (001 §2.2.3: severe errors, most criteria met, all met)."""

    #: `goal.rubric` in a record: at least one; one of the five in docs/trustee.md by name, or a
    #: sentence of your own
    criteria: Texts
    #: `goal.expected` in a record: those that whoever wrote the task expects (001 eq. 3); only who
    #: judges is told them
    calls: tuple[Call, ...] = ()

    def __post_init__(self) -> None:
        if not self.criteria or not all(text.strip() for text in self.criteria):
            raise ValueError("'goal.rubric' needs criteria, texts that are not blank")

    def as_json(self) -> JsonObject:
        calls = [call.as_json() for call in self.calls]
        return {"rubric": list(self.criteria), **({"expected": calls} if calls else {})}


@frozen
class Limits:
    """How long a conversation may be, besides its user's turns (001 D.4). It ends at the first
    limit that is reached; one of both is given, at least 1; None: no limit."""

    __pydantic_config__ = CLOSED
    tool_turns: StrictInt | None = None  #: replies of the policy that hold calls
    replies: StrictInt | None = None  #: all replies of the policy

    def __post_init__(self) -> None:
        numbers = [value for value in (self.tool_turns, self.replies) if value is not None]
        if not numbers or min(numbers) < 1:
            raise ValueError("'limits' needs 'tool_turns', 'replies' or both, each at least 1")

    def as_json(self) -> dict[str, int]:
        return present(**asdict(self))
