#!/usr/bin/env bash
# Software: openenv-core 0.3.0 (the server of OpenEnv's environments), with fastapi 0.165.0 and
#   fastmcp 4.2.3.
# Expected: what an environment puts into an observation arrives at the client, in the same form
#   by HTTP as by WebSocket, and requests by HTTP to /reset and /step play an episode, or say that
#   they cannot.
# Seen: `metadata`, a field of every observation, arrives by neither way; of an observation in a
#   field the fields of a subclass are dropped; a reward of True is 1.0 by HTTP and true by
#   WebSocket; a step after `done` is carried out. By HTTP each request makes an environment of
#   its own: /step meets one that was never reset, the next /step another, and all answer 200.
#   (OpenEnv's tutorial calls HTTP stateless and plays by WebSocket; that these requests are
#   answered all the same it does not say.)
# Touches: whoever passes hints to a trainer in `metadata`, compares runs in process with runs
#   behind a server, or drives an environment with an HTTP client, as the server's list of
#   endpoints invites to.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-deps openenv-core==0.3.0 # few of its packages are needed
"$folder/venv/bin/pip" install -q fastapi==0.165.0 fastmcp==4.2.3 httpx==0.28.1 \
  requests==2.34.2 websockets==17.4
cat >"$folder/expected" <<'END'
HTTP reset 200 {'observation': {'count': 100, 'item': None}, 'reward': None, 'done': False}
HTTP step 200 {'observation': {'count': 1, 'item': {'done': False, 'reward': None, 'metadata': {}, 'name': 'ball'}}, 'reward': 1.0, 'done': False}
HTTP step 200 {'observation': {'count': 1, 'item': {'done': False, 'reward': None, 'metadata': {}, 'name': 'ball'}}, 'reward': 1.0, 'done': False}
HTTP state {'episode_id': None, 'step_count': 0}
4 environments for 4 requests
WebSocket reset {'observation': {'count': 100, 'item': None}, 'reward': None, 'done': False}
WebSocket step {'observation': {'count': 101, 'item': {'done': False, 'reward': None, 'metadata': {}, 'name': 'ball'}}, 'reward': True, 'done': True}
WebSocket step {'observation': {'count': 102, 'item': {'done': False, 'reward': None, 'metadata': {}, 'name': 'ball'}}, 'reward': True, 'done': True}
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
from fastapi.testclient import TestClient
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Add(Action):
    amount: int


class Item(Observation):
    name: str


class Named(Item):
    color: str


class Count(Observation):
    count: int
    item: Item | None = None


made = []


class Counter(Environment):
    """Counts from 100 on, once it is reset; ends at 101."""

    def __init__(self):
        super().__init__()
        made.append(self)
        self.count = 0

    def reset(self, seed=None, episode_id=None, **more):
        self.count = 100
        return Count(count=self.count)

    def step(self, action, timeout_s=None, **more):
        self.count += action.amount
        return Count(
            count=self.count,
            item=Named(name="ball", color="red"),
            reward=True,
            done=self.count > 100,
            metadata={"hint": "go on"},
        )

    @property
    def state(self):
        return State(step_count=self.count)


client = TestClient(create_fastapi_app(Counter, Add, Count))
probes = len(made)  # the server makes some to look at them
steps = (("reset", {}), ("step", {"amount": 1}), ("step", {"amount": 1}))
for kind, data in steps:
    answer = client.post(f"/{kind}", json={"action": data} if data else {})
    print("HTTP", kind, answer.status_code, answer.json())
print("HTTP state", client.get("/state").json())
print(len(made) - probes, "environments for 4 requests")
with client.websocket_connect("/ws") as socket:
    for kind, data in steps:
        socket.send_json({"type": kind, "data": data})
        print("WebSocket", kind, socket.receive_json()["data"])
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
