"""Whether a chat template fits conversations of several turns with tools, found in seconds with the
policy's real tokenizer, before weights are loaded: at a start, by `rods plan` and `rods doctor`.

Each part of a conversation is *equal* to what the template makes of all of it, or is *kept although
the template would rewrite it* (what was sampled stays as it was, which is what the loss needs), or
is *refused*, with the reason."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rods.calls import Call
from rods.canonical import JsonObject, frozen
from rods.config import Config
from rods.dialects import Dialect, Message
from rods.dialects.native import as_rendered, assistant_as_rendered, call_as_rendered
from rods.environments.base import Result, Tool
from rods.episode.drivers import ground_truth
from rods.episode.engine import NeedText
from rods.errors import Finding, UserError
from rods.logs import log
from rods.players import Players
from rods.tasks import AnyTask, Task
from rods.trainer.chat import Chat, Unrendered

ARGUMENTS = {"place": "a room", "seats": 3}
DONE = "All is done."
REMEDY = 'set policy.dialect = "hermes", or give the model another chat template'
SAMPLE = 64  # tasks whose tokens are counted


@frozen
class Part:
    """One part of a conversation. `why`: what is refused, or what the template would do."""

    name: str
    verdict: Literal["equal", "kept", "refused"]
    why: str = ""

    def finding(self) -> Finding:
        """What `rods plan`, `rods doctor` and a start print."""
        why = f" ({self.why})" if self.why else ""
        if self.verdict == "refused":
            return Finding(self.name, False, f"refused{why}", REMEDY)
        if self.verdict == "kept":
            return Finding(self.name, None, f"kept, although the template would rewrite it{why}")
        return Finding(self.name, True, "equal")


class Lengths(NamedTuple):
    """Tokens of tasks by the chat template. Means are of the ground truths' episodes, 0 where no
    task has one: a policy that thinks, or errs, takes more."""

    tasks: int  # that were counted
    prompt: int  # the longest first prompt
    read: float  # of prompts and results, the mean
    generated: float  # of replies, the mean


def check(chat: Chat, dialect: Dialect, tools: Sequence[Tool]) -> None:
    """Logs what would be rewritten. Raises UserError for a template that cannot show a
    conversation."""
    found = parts(chat, dialect, tools)
    for part in found:
        if part.verdict == "refused":
            what = f"the chat template does not fit: {part.name} is refused ({part.why})"
            raise UserError(what, where=chat.folder, remedy=REMEDY)
    log.info("chat template", dialect=dialect.name, **{p.name: p.verdict for p in found})


def of_policy(
    config: Config, players: Players, tasks: Sequence[AnyTask]
) -> tuple[list[Finding], Lengths | None]:
    """The form of a policy's calls, what its chat template makes of a conversation with the tools
    of the first of `tasks`, and the tokens of some of them, in equal distances (None: they cannot
    be rendered). Raises UserError where there is no chat template, or none that is known."""
    chat = Chat.load(Path(config.policy.model), config.policy)
    dialect, tools = shown(config, players, tasks[0])
    found = parts(chat, dialect, tools)
    findings = [_form(chat, config.policy.dialect, dialect), *(part.finding() for part in found)]
    if any(part.verdict == "refused" for part in found):
        return findings, None
    return findings, lengths(chat, config, players, tasks)


def lengths(chat: Any, config: Config, players: Players, tasks: Sequence[AnyTask]) -> Lengths:
    """The tokens of some of `tasks`, in equal distances; no episode exceeds the context. `chat` is
    a Chat, or stands in for one."""
    tasks = tasks[:: math.ceil(len(tasks) / SAMPLE)]
    longest = read = generated = 0
    for task in tasks:
        job = players.scored(task, config)
        if not isinstance(task, Task):
            if isinstance(need := next(job.engine()), NeedText):
                longest = max(longest, len(chat.prompt(need.messages)))
            continue
        left = config.rollouts.max_context_tokens
        for need, reply in ground_truth(job):
            fresh = need.messages[need.fresh :]
            size = len(chat.continuation(fresh) if need.fresh else chat.prompt(fresh))
            longest = longest if need.fresh else max(longest, size)
            written = len(chat.reply(reply)) + 1  # its end
            read += min(size, max(left, 0))
            generated += min(written, max(left - size, 0))
            left -= size + written
    played = sum(isinstance(task, Task) for task in tasks) or 1
    return Lengths(len(tasks), longest, read / played, generated / played)


def _form(chat: Chat, named: str, dialect: Dialect) -> Finding:
    if chat.family is not None:
        return Finding("the form", True, f"{chat.family.name}, that of {chat.family.title}")
    if named == "native":
        return Finding("the form", None, f"{dialect.name}: the template documents no tools")
    return Finding("the form", True, dialect.name)


def shown(config: Config, players: Players, task: AnyTask) -> tuple[Dialect, list[Tool]]:
    """The dialect and the tools of `task`, as its episodes have them."""
    job = players.scored(task, config)
    tools = job.environment.tools()
    return job.dialect, [tools[name] for name in task.tools_at(0)]


def parts(chat: Chat, dialect: Dialect, tools: Sequence[Tool]) -> list[Part]:
    """What the template makes of each part of a conversation with `tools` (at least one)."""
    talk = _Talk(chat, dialect)
    system = Message("system", dialect.system(tools), dialect.beside(tools))
    found = [talk.begin([system, Message("user", dialect.user("Begin.", ()))], tools)]
    if found[0].verdict == "refused":
        return found
    call = Call(tools[0].name, ARGUMENTS)
    both = [call, Call(tools[-1].name, {})]
    results = [Result("done"), Result('{"ok": true}')]
    user = Message("user", dialect.user("Go on.", ()))
    returned = Message("user", dialect.user("Go on.", tools[:1]))
    steps: list[tuple[str, list[Call], Sequence[Message]]] = [
        ("a call and its result", [call], dialect.observation([call], results[:1])),
        ("two calls and their results", both, dialect.observation(both, results)),
        ("the next user turn", [], [user]),
        ("a complaint", [], [Message(*dialect.complaint("no call"))]),
        ("a tool that comes back", [], [returned]),
    ]
    for name, calls, messages in steps:
        try:
            found.append(talk.step(name, calls, messages))
        except Unrendered as error:
            found.append(Part(name, "refused", error.what))
            return found
    return found


class _Talk:
    """A conversation as the policy's tokens have it (`ours`), and as its template is given it."""

    def __init__(self, chat: Chat, dialect: Dialect) -> None:
        self.chat = chat
        self.dialect = dialect
        self.ours = ""
        self.theirs: list[JsonObject] = []
        self.tools: list[Any] = []

    def begin(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Part:
        name = "the prompt"
        try:
            self.ours = self.chat.opened(messages)
        except Unrendered as error:
            return Part(name, "refused", error.what)
        lacking = [tool.name for tool in tools if tool.name not in self.ours]
        if lacking:
            return Part(name, "refused", f"the template documents no {lacking[0]}")
        self.theirs, self.tools = self.chat.listed(messages)
        return Part(name, "equal")

    def step(self, name: str, calls: list[Call], messages: Sequence[Message]) -> Part:
        """What becomes of a reply that makes `calls` (none: an answer), with `messages` behind it.
        Raises Unrendered."""
        before = self.ours
        written = self.dialect.write(calls) if calls else self.dialect.answer(DONE)
        after, closing = self.chat.continued(messages)
        self.ours += self.chat.closed(written) + closing + after
        reply = {"role": "assistant", "content": written}
        if self.chat.family is not None and self.chat.renders_calls:
            listed = [
                call_as_rendered(call.name, call.arguments, place)
                for place, call in enumerate(calls)
            ]
            reply = assistant_as_rendered(listed) if calls else {**reply, "content": DONE}
        self.theirs.append(reply)
        self.theirs += [as_rendered(message, place) for place, message in enumerate(messages)]
        try:
            whole = self.chat.rendered(self.theirs, self.tools, opening=True)
        except Unrendered as error:
            return Part(name, "kept", error.what)
        if whole == self.ours:
            return Part(name, "equal")
        if len(calls) == 1 and whole.endswith(closing + after):
            pairs = enumerate(zip(before, whole, strict=False))
            shared = next((place for place, (a, b) in pairs if a != b), len(before))
            start = min(shared, len(before) - len(self.chat.opening))
            own = whole[start : len(whole) - len(closing + after)]
            parsed = self.dialect.parse(own)
            if parsed.calls != tuple(calls):
                return Part(name, "refused", f"its own form of a call is not read: {own[-200:]!r}")
        return Part(name, "kept")
