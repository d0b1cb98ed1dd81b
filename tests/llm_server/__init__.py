"""A real model server for tests and for a first look, without a GPU: vLLM's CPU build with SmolLM2-135M-Instruct.

`sh tests/llm_server/setup.sh` makes an environment of its own in the cache folder (about 4 GB); `python -m
tests.llm_server` serves until Ctrl-C; in tests, `with LlmServer() as server: ... server.url`. A model of 135M
parameters writes poor plans: it is there to show that the machinery around it holds.
"""

from tests.llm_server.server import LlmServer, missing

__all__ = ["LlmServer", "missing"]
