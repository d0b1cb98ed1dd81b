"""The dialect seam: the text form in which a policy reads tools and observations and writes calls
and answers. It is the model's own (`native`), `tags` (Environment Tuning), `hermes` (Hermes/Qwen)
or `compact` (nano)."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, Protocol

from rods.calls import MAX_CALLS, Call
from rods.canonical import JsonObject, Texts, frozen, present
from rods.environments.base import Result, Tool

TERSE = frozenset({"compact"})  # their policies read a few words where others read a sentence
Role = Literal["system", "user", "assistant", "tool"]
RoleAndText = tuple[Role, str]
NO_TOOLS: Mapping[str, Tool] = MappingProxyType({})

# the way out that a complaint about JSON names
ESCAPES = 'in texts write " as \\", a line break as \\n, and < as \\u003c'


@frozen
class Message:
    """One message of the conversation. `dict(message)` is what clients of chat interfaces send."""

    role: Role
    content: str
    #: a system message's: tools that a chat template documents, each a JSON text
    tools: Texts = ()
    name: str = ""  #: the tool whose result it is, where a chat template shows it

    def keys(self) -> Texts:
        return ("role", "content")

    def __getitem__(self, name: str) -> str:
        if name not in self.keys():
            raise KeyError(name)
        return str(getattr(self, name))

    def as_json(self) -> JsonObject:
        more = present(tools=self.tools or None, name=self.name or None)
        return {"role": self.role, "content": self.content, **more}


@frozen
class Parsed:
    """A reply, read. Exactly one of three: `calls`, an `answer`, or the `error` that makes the text
    malformed. `in_call`: the frame of the reply is sound, and what stands inside a call is at fault
    (invalid JSON, say)."""

    calls: tuple[Call, ...] = ()
    answer: str | None = None
    error: str | None = None
    in_call: bool = False

    @staticmethod
    def made(calls: Sequence[Call]) -> "Parsed":
        """The reply that makes `calls`; malformed where there are more than `MAX_CALLS`."""
        if len(calls) > MAX_CALLS:
            return Parsed(
                error=f"a reply may make {MAX_CALLS} calls at most: make the others later"
            )
        return Parsed(calls=tuple(calls))


class Dialect(Protocol):
    """Pure functions between text and records; no state."""

    name: str

    def system(self, tools: Sequence[Tool], guidelines: str = "") -> str:
        """The system prompt with the documents of `tools`, and `guidelines` at its end where there
        are any."""

    def user(self, text: str, returned: Sequence[Tool]) -> str:
        """A user turn; `returned` are tools that become available with it, to be documented
        there."""

    def beside(self, tools: Sequence[Tool]) -> Texts:
        """What of `tools` travels beside the system prompt (`Message.tools`); none where the prompt
        documents them."""

    def parse(self, text: str, tools: Mapping[str, Tool] = NO_TOOLS) -> Parsed:
        """Reads a reply. `tools`, by name, say of which type a value is that the form writes as
        text. Never raises."""

    def observation(self, calls: Sequence[Call], results: Sequence[Result]) -> Sequence[Message]:
        """The messages that show the results of one step's calls, in order."""

    def complaint(self, error: str) -> RoleAndText:
        """The message that answers malformed text."""

    def write(self, calls: Sequence[Call]) -> str:
        """The reply that makes `calls`, as a well-behaved policy would write it (warm starts,
        recorded outputs)."""

    def answer(self, text: str) -> str:
        """The reply that ends a turn with `text`."""


DialectName = Literal["native", "tags", "hermes", "compact"]


def load(
    name: DialectName,
    prompt: Literal["plain", "resourceful"] = "plain",
    folder: str = "",
    family: str = "",
) -> Dialect:
    """The dialect called `name`; `prompt` chooses between the two system prompts of `tags`. The
    native one is that of the chat template in the model's `folder`, or of the `family` that is
    named; a template that writes neither tools nor calls has none, and `hermes` stands in. Raises
    UserError for any other whose form is not known, or that documents no tools."""
    from rods.dialects.compact import Compact
    from rods.dialects.native import Native, family_in
    from rods.dialects.tags import Hermes, Tags

    if name == "native":
        spoken = family_in(folder, family)
        return Native(spoken) if spoken else Hermes()
    return Tags(prompt) if name == "tags" else Hermes() if name == "hermes" else Compact()
