"""The dialect seam: the text form in which a policy reads tools and observations and writes calls
and answers. It is `tags` (Environment Tuning), `hermes` (Hermes/Qwen) or `compact` (nano)."""

from collections.abc import Sequence
from typing import Literal, Protocol

from rods.calls import MAX_CALLS, Call
from rods.canonical import frozen
from rods.environments.base import Result, Tool

TERSE = frozenset({"compact"})  # their policies read a few words where others read a sentence
RoleAndText = tuple[Literal["system", "user", "assistant", "tool"], str]


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
            return Parsed(error=f"a reply may make {MAX_CALLS} calls at most")
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

    def parse(self, text: str) -> Parsed:
        """Reads a reply. Never raises."""

    def observation(self, calls: Sequence[Call], results: Sequence[Result]) -> RoleAndText:
        """The message that shows the results of one step's calls, in order."""

    def complaint(self, error: str) -> RoleAndText:
        """The message that answers malformed text."""

    def write(self, calls: Sequence[Call]) -> str:
        """The reply that makes `calls`, as a well-behaved policy would write it (warm starts,
        recorded outputs)."""

    def answer(self, text: str) -> str:
        """The reply that ends a turn with `text`."""


def load(
    name: Literal["tags", "hermes", "compact"], prompt: Literal["plain", "resourceful"] = "plain"
) -> Dialect:
    """The dialect called `name`; `prompt` chooses between the two system prompts of `tags` and is
    unused elsewhere."""
    from rods.dialects.compact import Compact
    from rods.dialects.tags import Hermes, Tags

    return Tags(prompt) if name == "tags" else Hermes() if name == "hermes" else Compact()
