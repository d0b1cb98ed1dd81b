"""A hub on loopback that speaks what huggingface_hub asks of one: repositories, a list of files
before a commit, large files by LFS, commits."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_onlyInTheUsersOwnEnvironment"


class Hub:
    """What it holds: `made` repositories, with what was asked for, the `files` of the one branch,
    and each commit's summary. `refuses`: requests whose path has this in it get 403, which repeats
    the token. While `open` is not set, commits wait; `asked`: whether there was one."""

    def __init__(self) -> None:
        self.url = ""
        self.made: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}
        self.commits: list[str] = []
        self.refuses = "nothing"
        self.open = threading.Event()
        self.asked = threading.Event()
        self.open.set()
        self._large: dict[str, bytes] = {}  # by SHA-256

    def answer(self, method: str, path: str, body: bytes, token: str) -> tuple[int, Any]:
        if self.refuses in path or token != f"Bearer {TOKEN}":
            return 403, {"error": f"nothing is granted to {token}"}
        if path == "/api/repos/create":
            self.made.append(json.loads(body))
            return 200, {"url": f"{self.url}/lab/policy", "id": "lab/policy"}
        if path == "/api/models/lab/policy/preupload/main":
            files = [
                {
                    "path": name,
                    "uploadMode": "lfs" if name.endswith(".safetensors") else "regular",
                    "shouldIgnore": False,
                }
                for name in (file["path"] for file in json.loads(body)["files"])
            ]
            return 200, {"files": files}
        if path == "/lab/policy.git/info/lfs/objects/batch":
            objects = json.loads(body)["objects"]
            action = {
                known["oid"]: {"upload": {"href": f"{self.url}/large/{known['oid']}"}}
                for known in objects
            }
            return 200, {
                "transfer": "basic",
                "objects": [{**known, "actions": action[known["oid"]]} for known in objects],
            }
        if path == "/api/models/lab/policy/commit/main":
            self.asked.set()
            self.open.wait()
            for line in map(json.loads, body.splitlines()):
                self._apply(line["key"], line["value"])
            return 200, {
                "commitUrl": f"{self.url}/lab/policy/commit/{len(self.commits)}",
                "commitOid": "0" * 40,
            }
        return 404, {"error": f"{method} {path} is not known here"}

    def keep(self, path: str, body: bytes) -> None:
        self._large[path.rpartition("/")[2]] = body

    def _apply(self, key: str, value: dict[str, Any]) -> None:
        if key == "header":
            self.commits.append(value["summary"])
        elif key == "file":
            self.files[value["path"]] = base64.b64decode(value["content"])
        elif key == "lfsFile":
            self.files[value["path"]] = self._large[value["oid"]]


@contextmanager
def stub_hub() -> Iterator[Hub]:
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            path = self.path.partition("?")[0]
            self._reply(
                *hub.answer("POST", path, self._body(), self.headers.get("Authorization", ""))
            )

        def do_GET(self) -> None:
            self.do_POST()

        def do_PUT(self) -> None:
            hub.keep(self.path, self._body())
            self._reply(200, {})

        def _body(self) -> bytes:
            if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def _reply(self, status: int, said: Any) -> None:
            text = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        hub.open.set()
        server.shutdown()
        server.server_close()
