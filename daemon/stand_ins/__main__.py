"""`python -m rods.daemon.stand_ins`: serves the stand-in for a language model by OpenAI's
protocol."""

import json
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Annotated

from aiohttp import web
from cyclopts import Parameter

from rods import commands
from rods.buffers.log.disk import replace
from rods.commands import Port
from rods.daemon.stand_ins import NAME
from rods.daemon.stand_ins.model import StandIn
from rods.errors import say
from rods.files import explained

APP = commands.application(
    "python -m rods.daemon.stand_ins", "Play the roles of a language model, by rule."
)
LARGEST = 64 * 2**20  # bytes of a request
UrlFile = Annotated[
    Path | None,
    Parameter(
        help="A file to write the address into, for `url_file` of a configuration's endpoint."
    ),
]

Requests = Annotated[
    Path | None,
    Parameter(
        help="A file to append every request to, a line of JSON each: what a model would be asked."
    ),
]


@APP.default
def stand_in(*, port: Port = 0, url_file: UrlFile = None, requests: Requests = None) -> None:
    """Play the roles of a language model, by rule, until Ctrl-C, to try things without one: of the
    author of variants, and of feedback's agents.

    Prints the endpoint as the configuration wants it."""
    with ExitStack() as opened:
        with explained(
            "cannot listen there", f"port {port}", "leave out --port: a free one is taken"
        ):
            listening = socket.create_server(("127.0.0.1", port))
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        if url_file is not None:
            replace(url_file, f"{address}\n".encode())
        with explained("cannot keep requests", str(requests), "name a file that can be written"):
            log = None if requests is None else opened.enter_context(requests.open("ab"))
        say(
            "# NO MODEL: rules that play the roles. What they write tries the machinery and is "
            "evidence for nothing."
        )
        say(f'[[operation.endpoints]]\nmodel = "{NAME}"\nurls = ["{address}"]')
        web.run_app(
            _application(StandIn(), log),
            sock=listening,
            print=None,
            access_log=None,
            shutdown_timeout=1.0,
        )


def _application(model: StandIn, log: IO[bytes] | None) -> web.Application:
    async def complete(request: web.Request) -> web.Response:
        try:
            asked = await request.json()
            if log is not None:
                log.write(json.dumps(asked).encode() + b"\n")
                log.flush()
            text = model.answer(asked)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            text = f"not what the daemon asks: {type(error).__name__} {error}"
            return web.json_response({"error": {"message": text, "code": 400}}, status=400)
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": text},
        }
        prompt = sum(len(str(message.get("content"))) for message in asked["messages"])
        # about four characters each
        usage = {"prompt_tokens": prompt // 4, "completion_tokens": len(text) // 4}
        body = {
            "id": NAME,
            "object": "chat.completion",
            "model": NAME,
            "choices": [choice],
            "usage": usage,
        }
        return web.json_response(body)

    async def models(request: web.Request) -> web.Response:
        card = {"id": NAME, "object": "model", "max_model_len": 131_072}
        return web.json_response({"object": "list", "data": [card]})

    application = web.Application(client_max_size=LARGEST)
    application.add_routes(
        [web.get("/v1/models", models), web.post("/v1/chat/completions", complete)]
    )
    return application


if __name__ == "__main__":
    raise SystemExit(commands.run(APP, sys.argv[1:]))
