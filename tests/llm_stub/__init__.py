"""A scripted OpenAI-compatible server: a real HTTP server in a process of its own, for tests and measurements.

It answers /v1/chat/completions, /v1/completions, /v1/models and /metrics (as vLLM does), and misbehaves on order: by
probability under a random seed, or by what a request contains. It counts what it saw.

    with Stub(Script(latency=0.1, faults={"500": 0.05, "reset": 0.05})) as stub:
        ... stub.url ...
        stub.counts()["500"]

`Script.answer` names a function `module:function` from a request's JSON body to the text of the answer, for servers
that play a role.
"""

from tests.llm_stub.process import Stub
from tests.llm_stub.script import FAULTS, Script

__all__ = ["FAULTS", "Script", "Stub"]
