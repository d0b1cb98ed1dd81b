"""What every rollout engine shares: its contract, and a conversation as tokens. What was generated
is never tokenised again: a conversation grows by the policy's own tokens and by those of the
messages in between, so that training sees exactly what was sampled. History is never rendered a
second time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rods import config
from rods.canonical import frozen
from rods.episode.drivers import Job
from rods.episode.engine import NeedText, Reply, Trace
from rods.trainer.chat import Chat


@frozen
class Sample:
    """One finished rollout. `completion_ids` hold the policy's tokens (`env_mask` 1) and those of
    the messages in between (0); `spans` are the [start, end) of its replies there. `logprobs` are
    those with which the engine drew each token, after temperature and nucleus: 0 for tokens that
    were not drawn, those of greedy replies among them."""

    trace: Trace
    prompt_ids: list[int]
    completion_ids: list[int]
    env_mask: list[int]
    spans: list[tuple[int, int]]
    logprobs: list[float]


class RolloutEngine(Protocol):
    """Rolls out episodes for training and validation."""

    def rollouts(
        self, jobs: Sequence[Job], *, random_seed: int, first: int = 0, greedy: bool = False
    ) -> list[Sample]:
        """A sample for each of `jobs`, in order. Draws are keyed by (random_seed, place), counted
        from `first`: a part of a batch draws what it would draw in the whole."""


@dataclass(slots=True)
class Conversation:
    """One rollout while it runs. `pending` are the tokens that an engine's cache has not seen
    yet."""

    prompt: list[int] = field(default_factory=list)
    completion: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.completion)

    def ask(self, chat: Chat, need: NeedText) -> None:
        """Appends what the policy is shown before its next reply."""
        if not self.prompt:
            self.prompt = self.pending = chat.prompt(need.messages)
            return
        end = self.completion[-1] if self.completion else None
        fresh = chat.continuation(need.messages[need.fresh :], end)
        self.pending = self.pending + fresh
        self.completion += fresh
        self.mask += [0] * len(fresh)
        self.logprobs += [0.0] * len(fresh)

    def room(self, limits: config.Rollouts) -> int:
        """How many tokens the next reply may have; below 1: the context is full."""
        return min(limits.max_reply_tokens, limits.max_context_tokens - self.length)

    def take(
        self, chat: Chat, tokens: list[int], limits: config.Rollouts, logprobs: Sequence[float] = ()
    ) -> Reply:
        """Appends a reply, with its log-probabilities unless it is greedy. Without an end token it
        was cut: by the limit of a reply, or by what was left of the context. Its last token has not
        passed through a cache."""
        self.spans.append((len(self.completion), len(self.completion) + len(tokens)))
        self.completion += tokens
        self.mask += [1] * len(tokens)
        self.logprobs += logprobs or [0.0] * len(tokens)
        self.pending = tokens[-1:]
        if tokens[-1] in chat.ends:
            return Reply(chat.text(tokens[:-1]))
        return Reply(
            chat.text(tokens), "context" if len(tokens) < limits.max_reply_tokens else "length"
        )

    def sample(self, trace: Trace) -> Sample:
        """The rollout, without what was shown after its last reply; nothing is trained on of one
        that the machinery broke."""
        end = self.spans[-1][1] if self.spans else 0
        if trace.end == "infrastructure":
            self.mask = [0] * len(self.mask)
        return Sample(
            trace,
            self.prompt,
            self.completion[:end],
            self.mask[:end],
            self.spans,
            self.logprobs[:end],
        )
