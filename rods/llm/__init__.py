"""The one way to a language model: a client for OpenAI-compatible endpoints (vLLM and others), without torch.

`Client` sends `Request`s and gives `Completion`s. It alone decides how many calls are in flight, what is tried again,
when to pause, and what has been spent; nothing above it retries HTTP. What a *model* does wrong (no words, cut short)
is data in a `Completion`; what the *machinery* does wrong is an `EndpointError`. API keys are read here and leave in
HTTP headers only.
"""

from rods.llm.budgets import Account, Budget
from rods.llm.client import Client
from rods.llm.records import BudgetSpent, Completion, EndpointError, Request, RequestRefused, Sink, ToolCall, Usage

__all__ = [
    "Account",
    "Budget",
    "BudgetSpent",
    "Client",
    "Completion",
    "EndpointError",
    "Request",
    "RequestRefused",
    "Sink",
    "ToolCall",
    "Usage",
]
