"""A real HTTP server in a thread of the test's process, which answers every request with JSON."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson


class Server(ThreadingHTTPServer):
    """Where it is slow, all who connect at once wait; five alone are let to by default."""

    request_queue_size = 256


@contextmanager
def json_server(answer: Callable[[str, Any], tuple[int, Any]]) -> Iterator[str]:
    """The server's base URL, with `/v1`. `answer` gets the path without its query, and the body ({}
    for none), and gives status and reply."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, told = answer(self.path.partition("?")[0], orjson.loads(body or b"{}"))
            reply = orjson.dumps(told)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
