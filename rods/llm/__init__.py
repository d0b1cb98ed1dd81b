"""A client for language models behind OpenAI-compatible endpoints (vLLM and others). No torch.

`Client` sends `Request`s and returns `Completion`s. It alone decides how many calls are in flight, what is retried,
when to pause, and what has been spent; nothing above it retries HTTP. A model that answers badly (no text, cut short)
is data in a `Completion`; an endpoint that fails is an `EndpointError`. API keys are read here and leave in HTTP
headers only.
"""

from rods.llm.budgets import Account, Budget, BudgetSpent
from rods.llm.client import Client
from rods.llm.records import Completion, EndpointError, Request, RequestRefused, Sink, ToolCall, Usage

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
