"""All attacks once more, from inside generated worlds: through a tool's method and through a check
function of a goal.

The file is an assembled world with the attacks added, as a model may write it; it would not pass
the controls of its syntax, which are passed by here, and is loaded by its address as any other.
"""

from __future__ import annotations

import os
import platform
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from unittest import mock

from rods.calls import Call
from rods.config import Sandbox
from rods.environments import addressed
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.episode.goals import holds
from rods.errors import InfrastructureError
from rods.family.environments.procedural.operations import assembled
from rods.family.environments.procedural.skeletons import draw_skeleton
from rods.worlds.sandbox import confined
from rods.worlds.sandbox.environment import Sandboxed
from tests.faults.attacks import ATTACKS, PRELUDE, STOPPERS, Attack
from tests.faults.outside import Outside
from tests.faults.table import Row
from tests.faults.workloads import Verdict

Way = Literal["tool", "check"]
WAYS: tuple[Way, ...] = ("tool", "check")
# A check answers true or false: where an attack ends without an exception, nothing more is heard of
# it.
UNHEARD = ("nothing there", "size of answers", "form of answers")
HOSTILE = '''

from typing import Any

PRELUDE = {prelude!r}
ATTACKS = {codes!r}


def _attacked(attack: str, given: dict[str, Any]) -> str:
    names: dict[str, Any] = {{"given": given, "got": "done"}}
    try:
        exec(PRELUDE + ATTACKS[attack], names)
    except BaseException as error:
        raise RuntimeError(f"{{type(error).__name__}}: {{error}}")
    return str(names["got"])


@WORLD.tool("Hostile")
def attack(db: World, attack: str, given: dict[str, Any]) -> str:
    """Runs an attack."""
    return _attacked(attack, given)


@WORLD.tool("Hostile")
def count(db: World) -> int:
    """Counts its calls."""
    db.next += 1
    return db.next


@WORLD.check
def escaped(db: World, attack: str, given: dict[str, Any]) -> bool:
    """The attack has got something."""
    return _attacked(attack, given).startswith("ESCAPED")
'''


def hostile_world(folder: Path) -> tuple[str, str]:
    """Writes the world below `folder`; its name and its source."""
    codes = {
        f"{attack.kind}: {attack.name}": attack.code.removeprefix(PRELUDE) for attack in ATTACKS
    }
    source = assembled(draw_skeleton(0, 0)) + HOSTILE.format(prelude=PRELUDE, codes=codes)
    return addressed.keep(source, folder), source


@contextmanager
def loaded(
    folder: Path, tier: confined.Tier, shared: Path
) -> Iterator[tuple[Environment, Environment]]:
    """The hostile world on a machine that offers no more than `tier`, with a short and with a long
    deadline."""
    name = f"{folder}/{hostile_world(folder)[0]}"
    offer = confined.Offer(tier, {})
    asked = [
        Sandbox(workers=1, seconds=seconds, readable=(str(shared.parent),))
        for seconds in (1.0, 30.0)
    ]
    with (
        mock.patch.object(confined, "offered", lambda: offer),
        mock.patch.dict(os.environ, {"API_KEY": "the-api-key"}),
        Environments(asked[0]) as hasty,
        Environments(asked[1]) as patient,
    ):
        yield hasty.load(name), patient.load(name)


class NoProcess(Exception):
    """The machine gave no worker process for an attack: it was neither stopped, nor did it get
    out."""


def escapes(tier: confined.Tier, way: Way, share: int = 1, first: int = 0) -> Row:
    """Every `share`-th attack, from number `first` on. One survives where what should stop it did,
    nothing outside was touched, and another world of the same process goes on. One for which no
    process could be had is not tried."""
    row = Row(f"attacks from a generated world's {way}, {tier}")
    with tempfile.TemporaryDirectory() as home:
        shared = Path(home) / "shared" / "file"
        shared.parent.mkdir()
        shared.write_text("readable", encoding="utf-8")
        with loaded(Path(home) / "worlds", tier, shared) as (hasty, patient):
            for number, attack in enumerate(ATTACKS[first::share]):
                if attack.by_number and platform.machine() != "x86_64":
                    continue
                folder = Path(home) / str(number)
                folder.mkdir()
                outside = Outside(folder, shared)
                point = f"{attack.kind}: {attack.name}"
                slow = getattr(attack, tier) == "deadline"
                try:
                    row.add(point, _tried(hasty if slow else patient, outside, attack, tier, way))
                except NoProcess as error:
                    row.untried.append(f"{point}: {error}")
                finally:
                    outside.close()
    return row


def _tried(
    environment: Environment, outside: Outside, attack: Attack, tier: confined.Tier, way: Way
) -> Verdict:
    """Raises NoProcess."""
    stopper = getattr(attack, tier)
    verdict = Verdict()
    try:
        bystander = environment.reset({"next": 7})
        attacker = environment.reset(None)
        first = bystander.call(Call("count")).value
    except InfrastructureError as error:
        raise NoProcess(error) from error
    if first != 8:
        verdict.wrong.append("another world does not answer")
    arguments = {"attack": f"{attack.kind}: {attack.name}", "given": outside.given}
    unheard = False
    try:
        if way == "tool":
            outcome = attacker.call(Call("attack", arguments)).text
        else:
            outcome = "ESCAPED" if holds(attacker, Call("escaped", arguments)) else ""
            unheard = not outcome and stopper in UNHEARD
    except InfrastructureError as error:
        outcome = str(error)
        # it is about the machine, not about this request
        if not outcome.startswith("environment "):
            raise NoProcess(error) from error
    if "ESCAPED" in outcome:
        verdict.lost += 1
    elif not unheard and not re.search(STOPPERS[stopper][0], outcome.strip('"')):
        verdict.wrong.append(f"not stopped by {stopper}: {outcome[:300]}")
    if not outside.untouched():
        verdict.lost += 1
    assert isinstance(environment, Sandboxed)
    if "limit" in stopper:  # what it holds (threads, files) is still there for the next one
        (cell,) = environment._cells
        cell.worker.discard(cell.worker.generation)
    try:
        if bystander.call(Call("count")).value != 9:
            verdict.wrong.append("another world is not where it was")
    except InfrastructureError as error:
        verdict.wrong.append(f"another world does not go on: {error}")
    return verdict
