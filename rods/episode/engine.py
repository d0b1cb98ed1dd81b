"""The episode engine: a generator that does no I/O.

`episode` walks a task's user turns and *asks* for what it needs: text from the policy (`NeedText`), results of calls
(`NeedCalls`), what a played user says next (`NeedUser`), a verdict at the end of a turn (`NeedVerdict`), or what the
whole episode earned (`NeedOutcome`). A driver answers with `send`; the generator returns a `Trace`. So one engine
serves lock-step batches, asyncio, slow environments and recorded outputs alike.

Nothing that a policy writes raises out of an episode: malformed text, unknown tools, wrong types and runaway steps
become observations or named ends. A turn ends when a reply holds no call.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from rods.calls import Call
from rods.conversations import Limits, Persona, Script, UserText
from rods.dialects.base import Dialect
from rods.environments.base import Environment, Result, Tool
from rods.faults import End
from rods.interfaces.base import IDENTITY, Interface, Shown
from rods.tasks import AnyTask, OpenTask, Task

MAX_STEPS = 20  # replies a turn, BFCL's limit
PLAYED = "done"  # what a turn of a head start ends with


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation. Roles: system, user, assistant, tool."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str


@dataclass(frozen=True, slots=True)
class NeedText:
    """Asks for the policy's next reply. `messages[fresh:]` are new since the last reply of this episode, which itself
    stands at `fresh - 1`: a token-in token-out engine appends only these. `turn` counts the task's turns from 0."""

    messages: Sequence[Message]
    fresh: int
    turn: int


@dataclass(frozen=True, slots=True)
class NeedCalls:
    """Asks for the results of `calls`, in order. Only visible tools get here. `messages` is the conversation so far,
    for whoever plays tools that nothing executes (001 eq. 7)."""

    calls: tuple[Call, ...]
    messages: Sequence[Message]


@dataclass(frozen=True, slots=True)
class NeedVerdict:
    """Asks what the turn that just ended earned. `results` are the texts of all results so far in the episode;
    `attempted` counts the calls that the policy wrote in this turn, refused ones included."""

    turn: int
    results: Sequence[str]
    attempted: int


Exchange = Sequence[tuple[str, str]]  # the user's text and the policy's answer, turn by turn


@dataclass(frozen=True, slots=True)
class NeedUser:
    """Asks what the played user says next (a `UserText`, or its text alone); empty: it ends the conversation. `said` is
    what it has seen of it: its own texts, and the answers without calls and results."""

    said: Exchange


@dataclass(frozen=True, slots=True)
class NeedOutcome:
    """Asks, once and at the end, what an episode earned that is judged as a whole. `turns` hold what the policy wrote
    and called, `messages` is the whole conversation, `said` what the user has seen of it: an answer that it did not
    live to see is empty."""

    messages: Sequence[Message]
    said: Exchange
    turns: Sequence[TurnTrace]


@dataclass(frozen=True, slots=True)
class Reply:
    """The policy's text. `end` other than `stop` ends the episode: cut at the token limit (`length`), no room left in
    the context (`context`), or the engine broke (`infrastructure`)."""

    text: str
    end: Literal["stop", "length", "context", "infrastructure"] = "stop"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A turn's outcome: the world is as it should be (`state`), and the expected results were seen (`response`).
    A turn without ground-truth calls is resolved by an answer without calls (000 §3.4, Appendix D)."""

    state: bool
    response: bool

    @property
    def resolved(self) -> bool:
        return self.state and self.response


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an episode earned that is judged as a whole: `passed` of `of`. `notes` say why, for people: the checks that
    failed, or a verifier's reasons."""

    passed: int
    of: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepTrace:
    """One reply and what came of it. `error` is the dialect's complaint about malformed text, or None; `in_call`: what
    stands inside a call is malformed, the reply around it is not. `reward`: what whoever plays tools or user gives for
    it, of several calls their mean; None where nobody gives one."""

    text: str
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
    error: str | None = None
    in_call: bool = False
    reward: float | None = None


@dataclass(frozen=True, slots=True)
class TurnTrace:
    """One user turn: its steps, and the verdict (None when the episode ended inside the turn, or is judged whole)."""

    steps: tuple[StepTrace, ...]
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """A whole episode. `turns` are the policy's own, after the first `head` ones of a head start, and may be fewer than
    the `expected` ones when the episode ended early. Where it is judged as a whole, `expected` is what it could earn,
    and `outcome` what it did (None when the machinery broke)."""

    task: str
    turns: tuple[TurnTrace, ...]
    end: End
    expected: int
    messages: tuple[Message, ...] = ()
    head: int = 0
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

    def as_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "end": self.end,
            "expected": self.expected,
            "resolved": self.resolved,
            **({"head": self.head} if self.head else {}),
            **({"outcome": asdict(self.outcome)} if self.outcome is not None else {}),
            "turns": [
                {
                    "verdict": None
                    if turn.verdict is None
                    else {"state": turn.verdict.state, "response": turn.verdict.response},
                    "steps": [
                        {
                            "text": step.text,
                            "calls": [call.as_json() for call in step.calls],
                            "results": [
                                {"text": r.text, "error": r.error, **({} if r.reward is None else {"reward": r.reward})}
                                for r in step.results
                            ],
                            "error": step.error,
                            **({"in_call": True} if step.in_call else {}),
                            **({} if step.reward is None else {"reward": step.reward}),
                        }
                        for step in turn.steps
                    ],
                }
                for turn in self.turns
            ],
            "messages": [{"role": m.role, "content": m.content} for m in self.messages],
        }

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> Trace:
        """What `as_json` has written; results have their texts alone. Raises ValueError for anything else."""
        try:
            return Trace(
                record["task"],
                tuple(
                    TurnTrace(
                        tuple(
                            StepTrace(
                                step["text"],
                                tuple(Call.from_json(call) for call in step["calls"]),
                                tuple(
                                    Result(one["text"], error=one["error"], reward=one.get("reward"))
                                    for one in step["results"]
                                ),
                                step["error"],
                                step.get("in_call", False),
                                step.get("reward"),
                            )
                            for step in turn["steps"]
                        ),
                        None if turn["verdict"] is None else Verdict(**turn["verdict"]),
                    )
                    for turn in record["turns"]
                ),
                record["end"],
                record["expected"],
                tuple(Message(one["role"], one["content"]) for one in record["messages"]),
                record.get("head", 0),
                _outcome(record["outcome"]) if "outcome" in record else None,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"a trace lacks or misshapes {error}") from error


def _outcome(record: Mapping[str, Any]) -> Outcome:
    return Outcome(record["passed"], record["of"], tuple(record["notes"]))


Request = NeedText | NeedCalls | NeedUser | NeedVerdict | NeedOutcome
Answer = Reply | Sequence[Result] | UserText | str | Verdict | Outcome | None


@dataclass(slots=True)
class _Progress:
    """What one episode has accumulated so far, and how much there may be."""

    limits: Limits | None = None
    replies: int = 0
    tool_turns: int = 0  # replies with calls
    messages: list[Message] = field(default_factory=list)
    turns: list[TurnTrace] = field(default_factory=list)
    results: list[tuple[Call, Result]] = field(default_factory=list)
    answered: int = 0  # messages up to and including the last reply

    @property
    def no_replies_left(self) -> bool:
        return self.limits is not None and self.replies == self.limits.replies

    @property
    def no_tools_left(self) -> bool:
        return self.limits is not None and self.tool_turns == self.limits.tool_turns


def episode(
    task: AnyTask,
    environment: Environment,
    dialect: Dialect,
    *,
    interface: Interface = IDENTITY,
    max_steps: int = MAX_STEPS,
    visible_only: bool = True,
    head: int = 0,
) -> Generator[Request, Any, Trace]:
    """Runs `task`, which belongs to `environment`, in the dialect. `max_steps` bounds replies a turn. Without
    `visible_only` the environment answers every call, as BFCL's harness lets it, tools held out included. The first
    `head` turns are played by the ground truth, and the policy, which is shown them as its own, plays the others; an
    `OpenTask` has none.

    Yields requests and returns the trace. Raises KeyError only when the task names a tool that the environment lacks,
    which `rods data check` refuses beforehand.
    """
    so_far, tools = _Progress(), environment.tools()
    documented = interface.documents(task.environment.name, [tools[name] for name in task.tools_at(0)])
    told = "\n\n".join(text for text in (task.system, interface.guidelines()) if text)
    so_far.messages.append(Message("system", dialect.system(documented, told)))
    if isinstance(task, OpenTask):
        return (yield from _whole(task, environment, dialect, interface, max_steps, visible_only, so_far))
    assert isinstance(task, Task)
    end: End = "finished"
    for turn, text in enumerate(task.script):
        returned: Sequence[Tool] = ()
        if turn in task.held_out:
            returned = interface.documents(task.environment.name, [tools[name] for name in task.held_out[turn]])
        so_far.messages.append(Message("user", dialect.user(text, returned)))
        steps: list[StepTrace] = []
        offered = {name: tools[name] for name in task.tools_at(turn)}
        visible = offered if visible_only else None
        now = Shown(environment, offered, so_far.results)
        if turn < head:
            if (yield from _played(task.calls[turn], dialect, interface, now, so_far)):
                continue
            end = "infrastructure"
            break
        ended = yield from _turn(turn, visible, dialect, interface, now, max_steps, so_far, steps)
        if ended is not None:
            so_far.turns.append(TurnTrace(tuple(steps)))
            end = ended
            break
        attempted = sum(len(step.calls) for step in steps)
        verdict = yield NeedVerdict(turn, tuple(result.text for _, result in so_far.results), attempted)
        so_far.turns.append(TurnTrace(tuple(steps), verdict))
    return Trace(task.id, tuple(so_far.turns), end, task.expected - head, tuple(so_far.messages), head)


def _whole(
    task: OpenTask,
    environment: Environment,
    dialect: Dialect,
    interface: Interface,
    max_steps: int,
    visible_only: bool,
    so_far: _Progress,
) -> Generator[Request, Any, Trace]:
    """An episode that is judged once: wherever it ended, unless the machinery broke."""
    tools, so_far.limits = environment.tools(), task.limits
    offered = {name: tools[name] for name in task.tools}
    said: list[tuple[str, str]] = []
    end: End = "finished"
    text = task.texts[0]
    while text.strip():
        if so_far.no_replies_left:
            end = "step_limit"
            break
        so_far.messages.append(Message("user", dialect.user(text, ())))
        now, steps = Shown(environment, offered, so_far.results), list[StepTrace]()
        visible = offered if visible_only else None
        ended = yield from _turn(len(said), visible, dialect, interface, now, max_steps, so_far, steps)
        so_far.turns.append(TurnTrace(tuple(steps)))
        if ended is not None:
            said.append((text, ""))
            end = ended
            break
        said.append((text, dialect.parse(steps[-1].text).answer or ""))
        text, reward = yield from _next_text(task.user, said)
        if reward is not None:
            so_far.turns[-1] = TurnTrace((*steps[:-1], replace(steps[-1], reward=reward)))
    outcome: Outcome | None = None
    if end != "infrastructure":
        outcome = yield NeedOutcome(tuple(so_far.messages), tuple(said), tuple(so_far.turns))
    return Trace(task.id, tuple(so_far.turns), end, task.expected, tuple(so_far.messages), outcome=outcome)


def _next_text(user: Script | Persona, said: Exchange) -> Generator[Request, Any, UserText]:
    """What the user says after `said`; empty where the conversation is over."""
    if isinstance(user, Script):
        return UserText(user.texts[len(said)] if len(said) < len(user.texts) else "")
    if len(said) == user.turns:
        return UserText("")
    answer: UserText | str = yield NeedUser(tuple(said))
    return UserText(answer) if isinstance(answer, str) else answer


def _played(
    calls: Sequence[Call], dialect: Dialect, interface: Interface, shown: Shown, so_far: _Progress
) -> Generator[Request, Any, bool]:
    """One turn of a head start: its ground truth, a call a reply. False when the machinery broke over it."""
    for call in calls:
        (result,) = yield NeedCalls((call,), tuple(so_far.messages))
        if result.error == "infrastructure":
            return False
        seen = interface.observation(shown, call, result)
        so_far.results.append((call, result))
        so_far.messages += [Message("assistant", dialect.write([call])), Message(*dialect.observation([call], [seen]))]
    so_far.messages.append(Message("assistant", dialect.answer(PLAYED)))
    return True


def _turn(
    turn: int,
    visible: Collection[str] | None,
    dialect: Dialect,
    interface: Interface,
    shown: Shown,
    max_steps: int,
    so_far: _Progress,
    steps: list[StepTrace],
) -> Generator[Request, Any, End | None]:
    """The user turn `turn`. Returns None when the policy answered, else why the episode is over. Calls beyond the
    conversation's limit are not carried out."""
    for _ in range(max_steps):
        if so_far.no_replies_left:
            return "step_limit"
        reply: Reply = yield NeedText(tuple(so_far.messages), so_far.answered, turn)
        so_far.replies += 1
        so_far.messages.append(Message("assistant", reply.text))
        so_far.answered = len(so_far.messages)
        if reply.end != "stop":
            steps.append(StepTrace(reply.text))
            return reply.end
        parsed = dialect.parse(reply.text)
        if parsed.error is not None:
            steps.append(StepTrace(reply.text, error=parsed.error, in_call=parsed.in_call))
            so_far.messages.append(Message(*dialect.complaint(interface.complaint(shown, parsed.error))))
            continue
        if not parsed.calls:
            steps.append(StepTrace(reply.text))
            return None
        if so_far.no_tools_left:
            steps.append(StepTrace(reply.text))
            return "step_limit"
        so_far.tool_turns += 1
        allowed = tuple(call for call in parsed.calls if visible is None or call.name in visible)
        answers = iter((yield NeedCalls(allowed, tuple(so_far.messages))) if allowed else ())
        results = tuple(
            next(answers)
            if visible is None or call.name in visible
            else Result(f"no tool named {call.name}", error="unknown_tool")
            for call in parsed.calls
        )
        given = [result.reward for result in results if result.reward is not None]
        reward = sum(given) / len(given) if given else None
        steps.append(StepTrace(reply.text, parsed.calls, results, reward=reward))
        if any(result.error == "infrastructure" for result in results):
            return "infrastructure"
        seen: list[Result] = []
        for call, result in zip(parsed.calls, results, strict=True):
            seen.append(interface.observation(shown, call, result))
            so_far.results.append((call, result))
        so_far.messages.append(Message(*dialect.observation(parsed.calls, seen)))
    return "step_limit"
