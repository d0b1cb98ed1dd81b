"""Hostile code in the sandbox, hostile arguments outside of it: each attempt, what stops it, and that nothing happened.

Every attempt runs in each tier that this machine has (the others are skipped, with the reason). After it the secret is
as it was, no server outside was reached, and another world of the same worker goes on where it was.
"""

from __future__ import annotations

import os
import platform
import re
import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rods.calls import Call, parse_python_call
from rods.dialects import load as load_dialect
from rods.environments.sandbox.confined import confined
from rods.environments.sandbox.environment import Sandboxed
from rods.errors import InfrastructureError
from tests.environments import load
from tests.faults.attacks import ATTACKS, STOPPERS, Attack, table
from tests.faults.hostile import FACTORY
from tests.rods.environments.tiers import require_tier

PAGE = Path(__file__).parent.parent.parent / "docs" / "sandbox.md"
RUN, COUNT = "run", Call("count", {})
LIMITS = sorted(value for name, value in vars(resource).items() if name.startswith("RLIMIT_"))


class Outside:
    """What an attacker would like to reach."""

    def __init__(self, folder: Path) -> None:
        self.secret = folder / "the-secret"
        self.secret.write_text("untouched", encoding="utf-8")
        self.server = socket.create_server(("127.0.0.1", 0))
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind(f"\0rods-{os.getpid()}-{folder.name}")
        self.abstract.listen()
        self.limits = _limits()
        self.given = {
            "secret": str(self.secret),
            "parent": os.getpid(),
            "port": self.server.getsockname()[1],
            "abstract": f"rods-{os.getpid()}-{folder.name}",
        }

    def untouched(self) -> bool:
        """Whether the secret is as it was, alone in its folder, no server was reached, and our limits are as before."""
        for server in (self.server, self.abstract):
            server.setblocking(False)
            try:
                server.accept()[0].close()
                return False
            except BlockingIOError:
                pass
        alone = [*self.secret.parent.iterdir()] == [self.secret]
        return alone and self.secret.read_text(encoding="utf-8") == "untouched" and _limits() == self.limits

    def close(self) -> None:
        self.server.close()
        self.abstract.close()


def _limits() -> list[tuple[int, int]]:
    return [resource.getrlimit(kind) for kind in LIMITS]


@pytest.fixture(scope="module", params=["bubblewrap", "landlock"])
def hostile(request: pytest.FixtureRequest) -> Iterator[tuple[str, Sandboxed, Sandboxed]]:
    tier = request.param
    require_tier(tier)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("API_KEY", "the-api-key")
        hasty, patient = (confined(FACTORY, tier=tier, workers=1, seconds=seconds) for seconds in (1.0, 30.0))
        yield tier, hasty, patient
        hasty.close()
        patient.close()


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    made = Outside(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: f"{attack.kind}: {attack.name}")
def test_an_attack_is_stopped_by_what_should_stop_it(
    hostile: tuple[str, Sandboxed, Sandboxed], outside: Outside, attack: Attack
) -> None:
    tier, hasty, patient = hostile
    stopper = getattr(attack, tier)
    environment = hasty if stopper == "deadline" else patient
    if attack.by_number and platform.machine() != "x86_64":
        pytest.skip("its numbers are those of x86-64")
    bystander, attacker = environment.reset({"count": 7}), environment.reset(None)
    assert bystander.call(COUNT).value == 8
    try:
        outcome = attacker.call(Call(RUN, {"code": attack.code, "given": outside.given})).text
    except InfrastructureError as error:
        outcome = str(error)
    assert "ESCAPED" not in outcome
    assert re.search(STOPPERS[stopper][0], outcome), outcome
    assert outside.untouched()
    if "limit" in stopper:  # what it holds (threads, files) is still there for the next one
        (cell,) = environment._cells
        cell.worker.discard(cell.worker.generation)
    assert bystander.call(COUNT).value == 9  # where it was, whatever became of the process


def test_at_least_forty_attacks_of_every_kind_are_on_the_page() -> None:
    assert len(ATTACKS) >= 40
    kinds = {"files", "network", "processes", "memory", "signals", "dunder", "symlinks", "proc", "kernel", "time"}
    assert kinds <= {attack.kind for attack in ATTACKS}
    assert table() in PAGE.read_text(encoding="utf-8"), "run `python -m tests.faults.attacks`"


ARGUMENTS = (
    "__import__('os').system('touch /tmp/escaped')",
    "().__class__.__base__.__subclasses__()",
    "open('/etc/passwd').read()",
    "eval('1+1')",
    "[x for x in ().__class__.__mro__]",
    "(lambda: 1)()",
    "f'{open(\"/etc/passwd\").read()}'",
    "globals()",
    "print.__self__.__dict__",
    "'a'.__class__",
    "*['a']",
    "10**10**10",
    "getattr(str, 'format')",
    "exit()",
)


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_an_argument_is_read_as_a_literal_or_not_at_all(argument: str) -> None:
    """What a policy writes is never evaluated, whichever dialect it writes in."""
    with pytest.raises(ValueError):
        parse_python_call(f"read_file(name={argument})", {})
    assert load_dialect("tags").parse(f"<tool_call>[read_file(name={argument})]</tool_call>").calls == ()
    hermes = f'<tool_call>{{"name": "read_file", "arguments": {{"name": {argument}}}}}</tool_call>'
    assert load_dialect("hermes").parse(hermes).calls == ()
    (call,) = load_dialect("compact").parse(f"! read_file name= {argument}").calls
    assert call.arguments == {"name": argument}  # there every word is text


@pytest.mark.parametrize(
    "value",
    [
        "../../../../etc/passwd",
        "/proc/self/environ",
        "\0",
        "\ud800",
        "a" * 10**6,
        "{0.__class__.__init__.__globals__}",
        "$(touch /tmp/escaped)",
        "; rm -rf / #",
        10**4000,
        [[[[[]]]]] * 5000,
        {"__class__": "os._wrap_close"},
        float("inf"),
    ],
    ids=lambda value: str(value)[:30].encode("unicode_escape").decode(),
)
@pytest.mark.parametrize("name", ["desk", "bfcl"])
def test_a_hostile_argument_is_data_to_the_worlds_that_run_in_this_process(name: str, value: Any, wheel: None) -> None:
    environment = load(name)
    world = environment.reset(None)
    for tool in environment.tools().values():
        for parameter in tool.parameters:
            result = world.call(Call(tool.name, {parameter.name: value}))
            assert isinstance(result.text, str) and "root:x" not in result.text
    assert not Path("/tmp/escaped").exists()


@pytest.fixture
def wheel() -> None:
    from worlds.bfcl import fetch

    fetch()
