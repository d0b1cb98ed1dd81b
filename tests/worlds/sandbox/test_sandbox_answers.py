"""What a confined process may answer: any bytes whatever, at any time. None of it gets past the
seam."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from rods.calls import Call
from rods.config import Sandbox
from rods.environments.base import Result
from rods.environments.workers.child import Child, Confinement, WorkerSpec
from rods.environments.workers.serving import HEADER
from rods.errors import InfrastructureError, Unsupported
from rods.worlds.sandbox import environment as module, process_pool
from rods.worlds.sandbox.confined import confined
from rods.worlds.sandbox.environment import ConfinedWorld, Sandboxed
from tests.conftest import WHOLE
from tests.faults.attacks import PRELUDE
from tests.faults.hostile import FACTORY as HOSTILE
from tests.worlds.sandbox.tiers import require_tier

CASES = 100_000 if os.environ.get(WHOLE) else 30_000
COUNT = Call("count", {})
TOOL: dict[str, Any] = {
    "name": "count",
    "group": "",
    "description": "",
    "bounded": True,
    "result": None,
    "reads": None,
}
HONEST = {
    "load": {
        "name": "fuzzed",
        "hash": "0",
        "features": [True] * 4,
        "tools": [["count", TOOL | {"parameters": []}]],
    },
    "reset": None,
    "replay": None,
    "call": ["1", 1],
    "snapshot": {"count": 1},
    "fork": None,
    "same": True,
}


class Line:
    """The parent's end of a socket, to a process that answers honestly until it is told what to
    send instead: bytes, in parts of any size, and then the end, silence or a reset."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.waiting = b""
        self.whole = True
        self.instead: bytes | None = None
        self.end: type[OSError] | None = None

    def sendall(self, content: bytes) -> None:
        _, number = HEADER.unpack_from(content)
        if self.instead is None:
            do = orjson.loads(content[HEADER.size :])[1]
            self.waiting = framed(orjson.dumps(["ok", HONEST[do]]), number)
        else:
            self.waiting, self.instead, self.whole = self.instead, None, self.chance.random() < 0.5

    def recv(self, count: int) -> bytes:
        if not self.waiting and self.end is not None:
            raise self.end
        part = self.waiting[
            : count if self.whole else min(count, self.chance.choice((1, 7, 8, 9, 100, 1 << 20)))
        ]
        self.waiting = self.waiting[len(part) :]
        return part

    def settimeout(self, seconds: float) -> None:
        pass

    def close(self) -> None:
        pass


class FuzzedChild(Child):
    """A child without a process: what it answers is a `Line`'s."""

    def __init__(self, line: Line) -> None:
        self._pipe = line  # type: ignore[assignment]
        self.process = SimpleNamespace(  # type: ignore[assignment]
            pid=0, stderr=None, poll=lambda: None, wait=lambda seconds: 0
        )
        self.owner = os.getpid()
        self.ready = line.instead is None
        self.opened = HONEST["load"]
        self.kill = lambda: None  # type: ignore[assignment]
        self._spec = WorkerSpec("", reply_bytes=4 << 20)
        self._number = 0
        if not self.ready:
            line.waiting = line.instead or b""
            line.instead = None


def framed(content: bytes, number: int) -> bytes:
    return HEADER.pack(len(content) & 0xFFFFFFFF, number & 0xFFFFFFFF) + content


def made_up(chance: random.Random, depth: int = 0) -> Any:
    """Any JSON value, with what matters to the seam among it."""
    kind = chance.randrange(9 if depth < 4 else 6)
    if kind < 6:
        atoms = (
            "",
            "x",
            "ok",
            "raised",
            "too_large",
            "tool",
            "arguments",
            0,
            -1,
            2**63,
            0.5,
            None,
            True,
            "\x1b[2J",
            "é",
        )
        return chance.choice(atoms)
    if kind < 8:
        return [made_up(chance, depth + 1) for _ in range(chance.randrange(5))]
    keys = ("name", "hash", "features", "tools", "parameters", "refused", "")
    return {chance.choice(keys): made_up(chance, depth + 1) for _ in range(chance.randrange(4))}


def content(chance: random.Random, honest: bytes) -> bytes:
    """A message's content: nonsense, something near an honest one, something nested, something
    long."""
    kind = chance.randrange(40)
    if kind < 6:
        return chance.randbytes(chance.randrange(60))
    if kind < 16:  # an honest one with some bytes changed, left out or doubled
        near = bytearray(honest)
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(len(near) + 1)
            near[place : place + chance.randrange(3)] = chance.choice(
                (
                    b"",
                    b"[",
                    b"]",
                    b'"',
                    b"null",
                    b"1e999",
                    b"\\ud800",
                    b"9" * 30,
                    b"NaN",
                    chance.randbytes(2),
                )
            )
        return bytes(near)
    if kind < 26:
        return orjson.dumps(
            [chance.choice(("ok", "ok", "raised", "too_large", 1, None)), made_up(chance)]
        )
    if kind < 32:
        return orjson.dumps(made_up(chance))
    if kind < 39:
        deep = chance.choice((3, 99, 101, 250, 1000, 1018, 1030))
        (opens, closes) = chance.choice(NESTED)
        return chance.choice(ENVELOPES) % (opens * deep + b"1" + closes * deep)
    long = b'"%s"' % (
        chance.choice((b"x", b"[", b"\\n")) * chance.choice((1_999, 2_001, 99_999, 100_001))
    )
    return chance.choice(ENVELOPES) % long


NESTED = ((b"[", b"]"), (b'{"a":', b"}"), (b'[{"":', b"}]"), (b'["]",', b"]"))
ENVELOPES = (
    b'["ok",%s]',
    b'["ok",[%s]]',
    b'["ok",["",%s]]',
    b'["ok",["",null,%s]]',
    b'["ok",[%s,1,"tool"]]',
    b'["raised",%s]',
    b'["too_large",%s]',
    b"[%s,1]",
    b"%s",
    b'["ok",{"a":%s}]',
)


def message(chance: random.Random, honest: bytes, number: int) -> bytes:
    inner = content(chance, honest)
    kind = chance.randrange(20)
    if kind == 0:
        return inner  # no header
    if kind == 1:  # a length that is wrong
        return (
            HEADER.pack(chance.choice((0, 1, len(inner) + 1, 1 << 22, 1 << 30, 0xFFFFFFFF)), number)
            + inner
        )
    if kind == 2:  # another request's number
        return framed(inner, chance.choice((0, number - 1, number + 1, 0xFFFFFFFF)))
    if kind == 3:  # more than was asked
        return framed(inner, number) + chance.choice(
            (b"x", framed(honest, number), framed(honest, number + 1))
        )
    return framed(inner, number)


def nesting(value: Any) -> int:
    level = [value]
    found = 0
    while level:
        found += 1
        level = [
            inner
            for each in level
            if isinstance(each, (list, dict))
            for inner in (each if isinstance(each, list) else each.values())
        ]
    return found


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    made = Line(random.Random(13))

    def start(spec: WorkerSpec) -> Future[Child]:
        future: Future[Child] = Future()
        future.set_result(FuzzedChild(made))
        return future

    monkeypatch.setattr(process_pool, "start", start)
    return made


@pytest.mark.slow
def test_any_bytes_whatever_give_what_the_seam_provides_for(line: Line) -> None:
    """Thousands of answers to requests of all kinds: a Result, a snapshot, a world, a truth
    value, or an error of the seam; nothing of it is deep or, where it is an error, long; and an
    honest process goes on."""
    chance = line.chance
    fuzzed = Sandboxed("fuzzed:environment", Confinement((), (), None), Sandbox(workers=1))
    (cell,) = fuzzed._cells
    world = fuzzed.reset(None)
    actions: dict[str, Callable[[], object]] = {
        "call": lambda: world.call(COUNT),
        "snapshot": world.snapshot,
        "fork": world.fork,
        "same": lambda: world.same_state(world),
        "reset": lambda: fuzzed.reset({}),
        "load": lambda: Sandboxed(
            "fuzzed:environment", Confinement((), (), None), Sandbox(workers=1)
        ),
    }
    came: dict[str, int] = {}
    for case in range(CASES):
        world._ask()  # it is there
        world._calls.clear()
        do = chance.choice([*actions])
        number = 0 if do == "load" else (_child(cell)._number + 1) & 0xFFFFFFFF
        line.instead = message(chance, orjson.dumps(["ok", HONEST[do]]), number)
        sent = line.instead
        line.end = chance.choice((None, TimeoutError, ConnectionResetError))
        try:
            found = actions[do]()
        except (InfrastructureError, Unsupported, ValueError) as error:
            assert type(error) is not ValueError or do == "reset", (case, do, sent)
            assert len(str(error)) < 3_000 and nesting(error.args) < 5, (case, do, sent)
            found = error
        line.instead = None
        line.end = None
        line.waiting = b""
        if isinstance(found, Result):
            assert type(found.text) is str and (
                found.error is None or len(found.text) <= 100_000
            ), (case, sent)
            assert nesting(found.value) <= 100 and orjson.dumps(found.value), (case, sent)
        elif isinstance(found, dict):
            assert nesting(found) <= 100 and orjson.dumps(found), (case, sent)
        else:
            kinds = (bool, ConfinedWorld, Sandboxed, InfrastructureError, Unsupported, ValueError)
            assert isinstance(found, kinds), (case, sent)
        came[type(found).__name__] = came.get(type(found).__name__, 0) + 1
    assert (
        min(
            came[kind]
            for kind in ("Result", "dict", "bool", "ConfinedWorld", "Sandboxed", "ValueError")
        )
        > CASES / 10_000
    ), came
    assert world.call(COUNT) == Result("1", 1)


def _child(cell: Any) -> Child:
    child: Child = cell.worker._child
    return child


LATE = """
import time
frame = sys._getframe()
while 'do' not in frame.f_locals: frame = frame.f_back
if frame.f_locals['do'] == 'replay':
    time.sleep(1.5)
    # as if to another request, which has it made once more
    os.write(pipe(), struct.pack('>II', 4, 77) + b'null')
    time.sleep(600)
"""


@pytest.mark.slow
def test_a_request_keeps_to_its_total_time_whatever_has_to_be_made_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_tier("landlock")
    monkeypatch.setattr(module, "WORLD_REMADE", 2.0)
    environment = confined(HOSTILE, Sandbox(seconds=1.0, workers=1))
    world = environment.reset(None)
    assert world.call(Call("run", {"code": PRELUDE + LATE, "given": {}})).text == "done"
    (cell,) = environment._cells
    cell.worker.discard(cell.worker.generation)
    start = time.monotonic()
    with pytest.raises(InfrastructureError):
        world.call(COUNT)
    assert time.monotonic() - start < 1.0 + 2.0 + 1.0, (
        "its own second, two to make it anew, and a slow machine's one"
    )
    assert environment.reset(None).call(COUNT).value == 1
    environment.close()
