"""The episode engine: a generator that does no I/O.

`Episode.play` walks a task's user turns and *asks* for what it needs: text from the policy
(`NeedText`), results of calls (`NeedCalls`), what a played user says next (`NeedUser`), a verdict
on a turn (`NeedVerdict`), or what the whole episode earned (`NeedOutcome`). A driver answers with
`send`; the generator returns a `Trace`. Nothing that a policy writes raises: malformed text,
unknown tools and runaway steps become observations or named ends."""

import itertools
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from rods.calls import Call
from rods.canonical import JsonObject, frozen, present
from rods.conversations import Limits, Persona, Script
from rods.dialects import Dialect, Message
from rods.environments.base import Environment, Result, Tool
from rods.errors import first_fault
from rods.faults import End
from rods.interfaces import IDENTITY, Interface, Shown
from rods.model_json import valid_unicode
from rods.tasks import AnyTask, OpenTask, Task

MAX_STEPS = 20  # replies a turn, BFCL's limit


@frozen
class NeedText:
    """Asks for the policy's next reply. `messages[fresh:]` are new since its last one, which itself
    stands at `fresh - 1`: a token-in token-out engine appends only these. `turn` counts the task's
    turns from 0."""

    messages: Sequence[Message]
    fresh: int
    turn: int


Exchange = Sequence[tuple[str, str]]  # the user's text and the policy's answer, turn by turn


@frozen
class NeedCalls:
    """Asks for the results of `calls`, in order. Only visible tools get here. `said` is the
    conversation so far of an open task, for whoever plays tools that nothing executes (001 eq. 7):
    the latest text has no answer yet."""

    calls: tuple[Call, ...]
    said: Exchange = ()


@frozen
class NeedVerdict:
    """Asks what the turn that just ended earned. `results` are the texts of all results so far in
    the episode; `attempted` counts the calls that the policy wrote in this turn, refused ones
    included. `made` are all calls so far in the episode, each with its result; those of this turn
    from `begun` on."""

    turn: int
    results: Sequence[str]
    attempted: int
    made: Sequence[tuple[Call, Result]] = ()
    begun: int = 0


@frozen
class NeedUser:
    """Asks what the played user says next; empty: it ends the conversation. `said` is what it has
    seen of it: its own texts, and the answers without calls and results."""

    said: Exchange


@frozen
class NeedOutcome:
    """Asks, once and at the end, what an episode earned that is judged as a whole. `said` is what
    the user has seen of the conversation: an answer that it did not live to see is empty."""

    messages: Sequence[Message]
    said: Exchange
    turns: "Sequence[TurnTrace]"


@frozen
class Reply:
    """The policy's text, in which lone surrogates become U+FFFD: it is recorded, and its calls are
    carried out. `end` other than `stop` ends the episode: cut at the token limit
    (`length`), no room left in the context (`context`), or the engine broke (`infrastructure`)."""

    text: str
    end: Literal["stop", "length", "context", "infrastructure"] = "stop"

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", valid_unicode(self.text))


@frozen
class Verdict:
    """A turn's outcome: the world is as it should be (`state`), and the expected results were seen
    (`response`). A turn without ground-truth calls is resolved by an answer without calls (000
    §3.4, Appendix D)."""

    state: bool
    response: bool

    @property
    def resolved(self) -> bool:
        return self.state and self.response


@frozen
class Outcome:
    """What an episode judged as a whole earned: `passed` of `of`. `notes`: failed checks, a
    verifier's reasons."""

    passed: int
    of: int
    notes: tuple[str, ...] = ()


@frozen
class StepTrace:
    """One reply and what came of it. `error`: the dialect's complaint about malformed text;
    `in_call`: only what stands inside a call is malformed."""

    text: str
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
    error: str | None = None
    in_call: bool = False

    def as_json(self) -> JsonObject:
        calls = [call.as_json() for call in self.calls]
        more = present(in_call=self.in_call or None)
        results = [{"text": result.text, "error": result.error} for result in self.results]
        return {"text": self.text, "calls": calls, "results": results, "error": self.error, **more}


@frozen
class TurnTrace:
    """One user turn: its steps, and the verdict (None when the episode ended inside the turn, or is
    judged whole)."""

    steps: tuple[StepTrace, ...]
    verdict: Verdict | None = None

    @property
    def pairs(self) -> list[tuple[Call, Result]]:
        """Its calls, each with its result."""
        return [pair for step in self.steps for pair in zip(step.calls, step.results, strict=True)]

    def as_json(self) -> JsonObject:
        verdict = None if self.verdict is None else asdict(self.verdict)
        return {"verdict": verdict, "steps": [step.as_json() for step in self.steps]}


@frozen
class Trace:
    """A whole episode. `turns` may be fewer than the `expected` ones when it ended early. Where all
    of it is judged, `expected` is what it could earn, and `outcome` what it did (None when the
    machinery broke)."""

    task: str
    turns: tuple[TurnTrace, ...]
    end: End
    expected: int
    messages: tuple[Message, ...] = ()
    outcome: Outcome | None = None

    @property
    def resolved(self) -> int:
        """Turns that were resolved, or what the whole episode earned."""
        if self.outcome is not None:
            return self.outcome.passed
        return sum(turn.verdict is not None and turn.verdict.resolved for turn in self.turns)

    @property
    def binary(self) -> int:
        return int(self.resolved == self.expected)

    def as_json(self) -> JsonObject:
        fields = {
            "task": self.task,
            "end": self.end,
            "expected": self.expected,
            "resolved": self.resolved,
        }
        outcome = present(outcome=None if self.outcome is None else asdict(self.outcome))
        turns = [turn.as_json() for turn in self.turns]
        messages = [message.as_json() for message in self.messages]
        return {**fields, **outcome, "turns": turns, "messages": messages}

    @staticmethod
    def from_json(record: Any) -> "Trace":
        """What `as_json` has written; results have their texts alone. Raises ValueError for
        anything else."""
        try:
            return _TRACES.validate_python(record)
        except ValidationError as error:
            raise ValueError(f"no trace: {first_fault(error)}") from None


_TRACES = TypeAdapter(Trace)
Request = NeedText | NeedCalls | NeedUser | NeedVerdict | NeedOutcome
Answer = Reply | Sequence[Result] | str | Verdict | Outcome | None


@dataclass(slots=True)
class Episode:
    """An episode of `task`, which belongs to `environment`, in the dialect. `max_steps` bounds
    replies a turn. Without `visible_only` the environment answers every call, as BFCL's harness
    lets it, tools held out included."""

    task: AnyTask
    environment: Environment
    dialect: Dialect
    interface: Interface = IDENTITY
    max_steps: int = MAX_STEPS
    visible_only: bool = True
    _messages: list[Message] = field(default_factory=list, init=False)
    _said: list[tuple[str, str]] = field(default_factory=list, init=False)  # of an open task
    _turns: list[TurnTrace] = field(default_factory=list, init=False)
    # of all calls so far
    _results: list[tuple[Call, Result]] = field(default_factory=list, init=False)
    _answered: int = field(default=0, init=False)  # messages up to and including the last reply
    _replies: int = field(default=0, init=False)
    _tool_turns: int = field(default=0, init=False)  # replies with calls
    _limits: Limits | None = field(default=None, init=False)

    def play(self) -> Generator[Request, Any, Trace]:
        """Yields requests and returns the trace. Raises KeyError only when the task names a tool
        that the environment lacks, which `rods data check` refuses beforehand."""
        task = self.task
        dialect = self.dialect
        documented = self._documents(task.tools_at(0))
        guidance = "\n\n".join(text for text in (task.system, self.interface.guidelines()) if text)
        self._messages.append(
            Message("system", dialect.system(documented, guidance), dialect.beside(documented))
        )
        if isinstance(task, OpenTask):
            return (yield from self._whole(task))
        assert isinstance(task, Task)
        end: End = "finished"
        for turn, text in enumerate(task.script):
            self._messages.append(
                Message("user", dialect.user(text, self._documents(task.later_tools.get(turn, ()))))
            )
            steps: list[StepTrace] = []
            begun = len(self._results)
            ended = yield from self._turn(turn, steps)
            if ended is not None:
                self._turns.append(TurnTrace(tuple(steps)))
                end = ended
                break
            attempted = sum(len(step.calls) for step in steps)
            verdict = yield NeedVerdict(
                turn,
                tuple(result.text for _, result in self._results),
                attempted,
                self._results,
                begun,
            )
            self._turns.append(TurnTrace(tuple(steps), verdict))
        return self._trace(end, task.expected)

    def _trace(self, end: End, expected: int, outcome: Outcome | None = None) -> Trace:
        return Trace(
            self.task.id, tuple(self._turns), end, expected, tuple(self._messages), outcome
        )

    def _documents(self, names: Sequence[str]) -> Sequence[Tool]:
        tools = self.environment.tools()
        return (
            self.interface.documents(self.task.environment.name, [tools[name] for name in names])
            if names
            else ()
        )

    def _shown(self, turn: int) -> Shown:
        tools = self.environment.tools()
        return Shown(
            self.environment,
            {name: tools[name] for name in self.task.tools_at(turn)},
            self._results,
        )

    def _whole(self, task: OpenTask) -> Generator[Request, Any, Trace]:
        """An episode that is judged once: wherever it ended, unless the machinery broke."""
        self._limits = task.limits
        end: End = "finished"
        text = task.texts[0]
        while text.strip():
            if self._no_replies_left():
                end = "step_limit"
                break
            self._messages.append(Message("user", self.dialect.user(text, ())))
            self._said.append((text, ""))
            steps: list[StepTrace] = []
            ended = yield from self._turn(len(self._turns), steps)
            self._turns.append(TurnTrace(tuple(steps)))
            if ended is not None:
                end = ended
                break
            self._said[-1] = (
                text,
                self.dialect.parse(steps[-1].text, self.environment.tools()).answer or "",
            )
            text = yield from _next_text(task.user, self._said)
        outcome: Outcome | None = None
        if end != "infrastructure":
            outcome = yield NeedOutcome(
                tuple(self._messages), tuple(self._said), tuple(self._turns)
            )
        return self._trace(end, task.expected, outcome)

    def _no_replies_left(self) -> bool:
        return self._limits is not None and self._replies == self._limits.replies

    def _turn(self, turn: int, steps: list[StepTrace]) -> Generator[Request, Any, End | None]:
        """The user turn `turn`. Returns None when the policy answered, else why the episode is
        over. Calls beyond the conversation's limit are not carried out."""
        dialect = self.dialect
        view = self._shown(turn)
        tools = self.environment.tools()
        limits = self._limits
        for _ in range(self.max_steps):
            if self._no_replies_left():
                return "step_limit"
            reply: Reply = yield NeedText(tuple(self._messages), self._answered, turn)
            self._replies += 1
            self._messages.append(Message("assistant", reply.text))
            self._answered = len(self._messages)
            if reply.end != "stop":
                steps.append(StepTrace(reply.text))
                return reply.end
            parsed = dialect.parse(reply.text, tools)
            if parsed.error is not None:
                steps.append(StepTrace(reply.text, error=parsed.error, in_call=parsed.in_call))
                self._messages.append(
                    Message(*dialect.complaint(self.interface.complaint(view, parsed.error)))
                )
                continue
            no_tools_left = limits is not None and self._tool_turns == limits.tool_turns
            if not parsed.calls or no_tools_left:
                steps.append(StepTrace(reply.text))
                return "step_limit" if parsed.calls else None
            self._tool_turns += 1
            visible = [not self.visible_only or call.name in view.tools for call in parsed.calls]
            asked = tuple(itertools.compress(parsed.calls, visible))
            answers = iter((yield NeedCalls(asked, tuple(self._said))) if asked else ())
            results = tuple(
                next(answers)
                if there
                else Result(
                    f"no tool named {call.name}; call one that you were given", error="unknown_tool"
                )
                for call, there in zip(parsed.calls, visible, strict=True)
            )
            steps.append(StepTrace(reply.text, parsed.calls, results))
            if any(result.error == "infrastructure" for result in results):
                return "infrastructure"
            seen: list[Result] = []
            for call, result in zip(parsed.calls, results, strict=True):
                seen.append(self.interface.observation(view, call, result))
                self._results.append((call, result))
            self._messages.extend(dialect.observation(parsed.calls, seen))
        return "step_limit"


def _next_text(user: Script | Persona, exchange: Exchange) -> Generator[Request, Any, str]:
    """What the user says after `exchange`; empty where the conversation is over."""
    if isinstance(user, Script):
        return user.texts[len(exchange)] if len(exchange) < len(user.texts) else ""
    if len(exchange) == user.turns:
        return ""
    text: str = yield NeedUser(tuple(exchange))
    return text
