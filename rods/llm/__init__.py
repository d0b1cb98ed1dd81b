"""A client for language models behind OpenAI-compatible endpoints (vLLM and others). No torch.

`Client` sends `Request`s and returns `Completion`s. It alone decides how many calls are in flight,
what is retried, when to pause, and what has been spent. A model that answers badly is data in a
`Completion`; an endpoint that fails is an `EndpointError`. API keys are read here and leave in HTTP
headers only."""

from rods.llm.client import Client as Client
from rods.llm.records import Account as Account
from rods.llm.records import Budget as Budget
from rods.llm.records import Completion as Completion
from rods.llm.records import EndpointError as EndpointError
from rods.llm.records import Request as Request
from rods.llm.records import RequestRefused as RequestRefused
from rods.llm.records import Usage as Usage
