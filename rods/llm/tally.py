"""What is counted about calls: one on its way, and all of a stage."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rods.llm.records import Completion, Request, Usage


@dataclass(slots=True)
class Totals:
    """What the calls of one stage have come to."""

    calls: int = 0
    failed: int = 0  # of these: given up, refused, cancelled
    retries: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0

    def add(self, usage: Usage, failed: bool) -> None:
        self.calls += 1
        self.failed += failed
        self.retries += usage.retries
        self.tokens_in += usage.tokens_in
        self.tokens_out += usage.tokens_out
        self.seconds += usage.seconds


@dataclass(slots=True)
class Call:
    """One call on its way: how often it was sent, where last, and how long attempts and the waits between took."""

    began: float
    sent: int = 0
    requests: int = 0  # over HTTP; what is refused with a schema is sent once more within one attempt
    failures: int = 0  # with which its waits grow
    taken: int = 0  # attempts that a server took in and broke over
    refused: float = 0.0  # monotonic time of the last refusal that any call might have met
    spent: float = 0.0
    last: float = 0.0
    backbone: str = ""

    def usage(self, request: Request, completion: Completion | None, outcome: str) -> Usage:
        """The call as it ended."""
        return Usage(
            stage=request.stage,
            outcome=outcome,
            backbone=self.backbone,
            model=completion.model if completion else "",
            tokens_in=completion.tokens_in if completion else 0,
            tokens_out=completion.tokens_out if completion else 0,
            seconds=self.last,
            waited=time.monotonic() - self.began - self.last,
            retries=max(0, self.sent - 1),
            requests=self.requests,
            constrained=bool(completion and completion.constrained),
            template=request.template,
            account=request.account.name if request.account else "",
        )
