"""A client for language models behind OpenAI-compatible endpoints (vLLM and others). No torch.

`Client` sends `Request`s and returns `Completion`s. It alone decides how many calls are in flight,
what is retried, when to pause, and what has been spent. A model that answers badly is data in a
`Completion`; an endpoint that fails is an `EndpointError`. API keys are read here and leave in HTTP
headers only."""

from rods.llm.client import Client as Client
from rods.llm.records import (
    Account as Account,
    Budget as Budget,
    Completion as Completion,
    EndpointError as EndpointError,
    Request as Request,
    RequestRefused as RequestRefused,
    Usage as Usage,
)
