"""Hostile code in the sandbox, hostile arguments outside of it: each attempt, what stops it, and
that nothing happened.

Every attempt runs in each tier that this machine has (the others are skipped, with the reason).
After it the secret is as it was, no server outside was reached, and another world of the same
worker goes on where it was.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rods.calls import Call, parse_python_call
from rods.config import Sandbox
from rods.dialects import load as load_dialect
from rods.errors import InfrastructureError
from rods.worlds.sandbox.confined import confined
from rods.worlds.sandbox.environment import Sandboxed
from tests import tables
from tests.environments import load
from tests.faults.attacks import ATTACKS, PRELUDE, STOPPERS, Attack, table
from tests.faults.hostile import FACTORY
from tests.faults.outside import Outside
from tests.missing import missing
from tests.worlds.sandbox.tiers import require_tier

PAGE = Path(__file__).parent.parent.parent / "docs" / "sandbox.md"
RUN = "run"
COUNT = Call("count", {})
OTHER_USER = 65534  # nobody


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of ours that confined processes may read, as they may those of packages."""
    made = tmp_path_factory.mktemp("shared") / "file"
    made.write_text("readable", encoding="utf-8")
    return made


@pytest.fixture(scope="module", params=["bubblewrap", "landlock"])
def hostile(
    request: pytest.FixtureRequest, shared: Path
) -> Iterator[tuple[str, Sandboxed, Sandboxed]]:
    tier = request.param
    require_tier(tier)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("API_KEY", "the-api-key")
        hasty, patient = (
            confined(
                FACTORY,
                Sandbox(workers=1, seconds=seconds, readable=(str(shared.parent),)),
                tier=tier,
            )
            for seconds in (1.0, 30.0)
        )
        yield tier, hasty, patient
        hasty.close()
        patient.close()


@pytest.fixture
def outside(tmp_path: Path, shared: Path) -> Iterator[Outside]:
    made = Outside(tmp_path, shared)
    yield made
    made.close()


@pytest.mark.few(60, others="slow")
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: f"{attack.kind}: {attack.name}")
def test_an_attack_is_stopped_by_what_should_stop_it(
    hostile: tuple[str, Sandboxed, Sandboxed], outside: Outside, attack: Attack
) -> None:
    tier, hasty, patient = hostile
    stopper = getattr(attack, tier)
    environment = hasty if stopper == "deadline" else patient
    if attack.by_number and platform.machine() != "x86_64":
        pytest.skip("its numbers are those of x86-64")
    bystander = environment.reset({"count": 7})
    attacker = environment.reset(None)
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


NOT_LISTED = """
import platform
from rods.worlds.sandbox import seccomp
column = seccomp._MACHINES[platform.machine()][0]
calls = seccomp._CALLS
partly = [call['numbers'] for call in (*calls['partly'].values(), *calls['without'].values())]
known = [*calls['allowed'].values(), *calls['idle'].values(), *partly]
c, reached = libc(), []
def tried(*arguments):
    ctypes.set_errno(0)
    result = c.syscall(*map(ctypes.c_long, arguments))
    if result != -1 or ctypes.get_errno() not in (1, 38): reached.append(arguments)
# uretprobe, uprobe: some kernels ask no filter about them, and end whoever makes them by hand
probes = {335, 336}
for number in set(range(1024)) - {numbers[column] for numbers in known} - probes:
    tried(number, -1, -1, -1, -1, -1, -1)
    if column == 0: tried(number | 0x40000000, -1, -1, -1, -1, -1, -1)
names = ('fcntl', 'ioctl', 'socketpair')
fcntl, ioctl, pair = (calls['partly'][name]['numbers'][column] for name in names)
for command in set(range(1100)) - {0, 1, 2, 3, 4, 1030, 1032}: tried(fcntl, 0, command, 0)
for command in range(0x5400, 0x5500):
    if command not in (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451): tried(ioctl, 0, command, 0)
for family in range(50):
    for kind in range(12):
        if (family, kind) != (1, 1): tried(pair, family, kind, 0, -1)
got = f'ESCAPED {reached}' if reached else 'nothing'
"""


def test_no_call_but_those_that_are_listed_reaches_the_kernel(
    hostile: tuple[str, Sandboxed, Sandboxed], outside: Outside
) -> None:
    """Every number that a kernel may have, the other set of x86-64 among them, and every value of
    those arguments that decide: whatever a later kernel adds is refused too."""
    _, _, patient = hostile
    assert (
        patient.reset(None).call(Call(RUN, {"code": PRELUDE + NOT_LISTED, "given": {}})).text
        == "nothing"
    )
    assert outside.untouched()


AS_ANOTHER_USER = """
import ctypes, os, sys
from pathlib import Path
libc = ctypes.CDLL(None, use_errno=True)
def mount(*arguments):
    if libc.mount(*arguments): raise OSError(ctypes.get_errno(), f'mount {arguments}')
user, home, *needed = int(sys.argv[1]), Path(sys.argv[2]), *map(Path, sys.argv[3].split(':'))
command = sys.argv[4:]
if libc.unshare(0x20000): raise OSError(ctypes.get_errno(), 'unshare')
mount(b'none', b'/', None, 0x44000, None)  # from here on nothing of it is seen outside
hidden = {}  # a folder that others may not pass, and what is needed below it
for place in needed:
    for folder in reversed(place.parents):
        if not folder.stat().st_mode & 1:
            hidden.setdefault(folder, []).append(place)
            break
held = {place: home / f'held{number}' for number, place in enumerate(needed)}
for folder, places in hidden.items():
    for place in places:
        held[place].mkdir()
        mount(bytes(place), bytes(held[place]), None, 0x5000, None)
    mount(b'none', bytes(folder), b'tmpfs', 0, b'mode=755')
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
        mount(bytes(held[place]), bytes(place), None, 0x5000, None)
os.setgroups([])
os.setgid(user)
os.setuid(user)
os.execv(command[0], command)
"""


@pytest.mark.sweep
def test_the_attacks_are_stopped_for_the_other_kind_of_user_too() -> None:
    """Root starts the sweep as an ordinary user; who is one, as root, if he may."""
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as home:
        pytest_command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "--basetemp",
            f"{home}/tests",
        ]
        command = [*pytest_command, "-k", "an_attack_is or no_call_but", str(Path(__file__))]
        if root:
            os.chown(home, OTHER_USER, OTHER_USER)
            needed = ":".join({sys.prefix, sys.base_prefix, str(PAGE.parents[1])})
            command = [
                sys.executable,
                "-c",
                AS_ANOTHER_USER,
                str(OTHER_USER),
                home,
                needed,
                *command,
            ]
        else:
            command = ["sudo", "-n", "PYTHONDONTWRITEBYTECODE=1", *command]
        environment = os.environ | {"HOME": home, "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("PYTEST_ADDOPTS", None)
        try:
            done = subprocess.run(
                command,
                cwd=PAGE.parents[1],
                env=environment,
                capture_output=True,
                text=True,
                timeout=900,
                check=False,
            )
            said = done.stdout[-4_000:] + done.stderr[-2_000:]
        except FileNotFoundError as error:
            done = None
            said = str(error)
        if done is None or not re.search(r"\d (passed|failed)", said):
            missing(
                f"the sweep cannot be started as {'an ordinary user' if root else 'root'}: {said}"
            )
        assert done is not None and done.returncode == 0, said


def test_at_least_forty_attacks_of_every_kind_are_on_the_page() -> None:
    assert len(ATTACKS) >= 40
    kinds = {
        "files",
        "network",
        "processes",
        "memory",
        "signals",
        "dunder",
        "symlinks",
        "proc",
        "kernel",
        "time",
        "ipc",
    }
    assert kinds <= {attack.kind for attack in ATTACKS}
    columns = ("stopped by", "bubblewrap", "landlock")
    shown = tables.rows(PAGE.read_text(encoding="utf-8"), *columns)
    assert shown == tables.rows(table(), *columns), "run `python -m tests.faults.attacks`"


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
    assert (
        load_dialect("tags").parse(f"<tool_call>[read_file(name={argument})]</tool_call>").calls
        == ()
    )
    hermes = f'<tool_call>{{"name": "read_file", "arguments": {{"name": {argument}}}}}</tool_call>'
    assert load_dialect("hermes").parse(hermes).calls == ()
    (call,) = load_dialect("compact").parse(f"! read_file name= {argument}").calls
    assert call.arguments == {"name": argument}  # there every word is text


@pytest.mark.needs("bfcl")
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
def test_a_hostile_argument_is_data_to_the_worlds_that_run_in_this_process(
    name: str, value: Any, wheel: None
) -> None:
    environment = load(name)
    world = environment.reset(None)
    for tool in environment.tools().values():
        for parameter in tool.parameters:
            result = world.call(Call(tool.name, {parameter.name: value}))
            assert isinstance(result.text, str) and "root:x" not in result.text
    assert not Path("/tmp/escaped").exists()


@pytest.fixture
def wheel() -> None:
    from rods.worlds.bfcl import fetch

    fetch()
