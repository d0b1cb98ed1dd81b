"""Every verb before every way to spoil a run folder (tests.console.spoiling): it refuses with exit
code 2 or 3, or goes on where what was spoiled is none of its business; either way without a
traceback, without a control character, within seconds, and what was on record stays as it was."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

import rods.console.main as console_main
import rods.daemon.main as daemon_main
import rods.trainer.main as trainer_main
from rods.console.main import verbs
from rods.signals import interrupt, on_signal
from tests.conftest import WHOLE
from tests.console.conftest import CONFIG, rods
from tests.console.spoiling import SPOILED, WAITED, Way
from tests.faults.forge import Forge

LATE = (
    "cyclopts.completion",
    "pydantic.type_adapter",
    "rods.buffers.audit.verify",
    "rods.buffers.lifecycle",
    "rods.evaluation.heldout",
    "rods.trainer.simulated",
)
for _name in (*(target.partition(":")[0] for target, *_ in verbs().values() if target), *LATE):
    importlib.import_module(_name)  # once, not in every child of the forge

# on a busy machine, beyond rods.deadlines.ARRIVAL; what hangs does not come back at all
SECONDS = 150.0
CHECKS = frozenset({"verify", "recover"})  # which end with 1 where they have found something
# What a start may write before it finds out, and evidence that it keeps.
OWN = ("locks", "heartbeat.", "logs", "report", "eval", "recovered", "snapshots")
# Verbs that see no more of a run than others do: asked where they must refuse, on the run as it
# was, and where a text could steer a terminal (but for the one that prints a path alone, and takes
# its time).
ALIKE = frozenset({"status --json", "inspect", "cost", "report", "score", "new", "plan"})
VERBS: dict[str, tuple[str, ...]] = {
    "status": ("console", "status", "RUN"),
    "status --json": ("console", "status", "RUN", "--json"),
    "inspect": ("console", "inspect", "RUN", "TASK"),
    "cost": ("console", "inspect", "--cost", "RUN"),
    "report": ("console", "dash", "RUN", "--export", "RUN/report"),
    "score": ("console", "trainer", "score", "RUN"),
    "verify": ("console", "verify", "RUN"),
    "recover": ("console", "recover", "RUN"),
    "fork": ("console", "trainer", "fork", "RUN", "RUN.fork", "--weights"),
    "observe": ("console", "trainer", "observe", "RUN"),
    "merge": ("console", "trainer", "merge", "RUN", "--epoch", "0"),
    "new": ("console", "trainer", "new", "RUN", "--config", "CONFIG"),
    "plan": ("console", "plan", "RUN"),
    "train": ("trainer", "RUN"),
    "daemon": ("daemon", "RUN"),
}


def call(folder: Path, program: str, *arguments: str) -> None:
    """One start of a program, in a child of the forge; what it prints goes where its errors go."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)  # which kills
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if program == "daemon":
        daemon_main.main(list(arguments))
    on_signal(interrupt)
    raise SystemExit((console_main if program == "console" else trainer_main).run(list(arguments)))


@pytest.fixture(scope="module")
def forge() -> Iterator[Forge]:
    with Forge() as found:
        yield found


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped after ten of its fourteen steps, its configuration beside it; a daemon
    leaves it soon."""
    place = tmp_path_factory.mktemp("malformed")
    config = CONFIG.replace('sync = "lockstep"', "") + "step_limit = 10\nidle_exit_seconds = 0.3\n"
    (place / "run.toml").write_text(config)
    assert rods("up", place / "run", "--config", place / "run.toml").returncode == 5
    return place


def contents(run: Path) -> dict[str, bytes]:
    """Every regular file of the run but those that belong to the processes."""
    names = {
        str(path.relative_to(run)): path
        for path in run.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    return {name: path.read_bytes() for name, path in names.items() if not name.startswith(OWN)}


def steers(text: str) -> bool:
    return any(not character.isprintable() and character not in "\n\t" for character in text)


def asked(name: str) -> list[str]:
    """The verbs that are put before this way to spoil a run."""
    way = SPOILED[name]
    told = name == "nothing" or "escapes" in name
    return [
        verb
        for verb in VERBS
        if (
            verb not in ALIKE
            or verb in way.refused
            or (told and (verb != "report" or name == "nothing"))
        )
        and not (verb == "daemon" and way.refused == WAITED)
    ]


def sample(name: str) -> list[str]:
    """Of these verbs one that refuses and one that goes on, where there are any: another pair for
    each way."""
    verbs = asked(name)
    place = list(SPOILED).index(name)
    halves = (
        [verb for verb in verbs if (verb in SPOILED[name].refused) == refuses]
        for refuses in (True, False)
    )
    return [half[place % len(half)] for half in halves if half]


@pytest.mark.few(5)
@pytest.mark.slow
@pytest.mark.parametrize("name", SPOILED if os.environ.get(WHOLE) else list(SPOILED)[::3])
def test_every_verb_refuses_or_goes_on(half: Path, forge: Forge, tmp_path: Path, name: str) -> None:
    put_before(half, forge, tmp_path, name, asked(name))


@pytest.mark.few(12)
@pytest.mark.parametrize("name", SPOILED)
def test_a_sample_of_verbs_refuses_or_goes_on(
    half: Path, forge: Forge, tmp_path: Path, name: str
) -> None:
    put_before(half, forge, tmp_path, name, sample(name))


def test_the_sample_has_every_verb() -> None:
    assert {verb for name in SPOILED for verb in sample(name)} == set(VERBS)


def put_before(half: Path, forge: Forge, tmp_path: Path, name: str, verbs: list[str]) -> None:
    """Asserts what the module says of these verbs and this way to spoil a run, each on a copy of
    its own."""
    way: Way = SPOILED[name]
    task = orjson.loads((half / "run" / "tasks.jsonl").read_bytes().splitlines()[0])["id"]
    wrong = []
    for verb in verbs:
        arguments = VERBS[verb]
        run = tmp_path / f"{len(list(tmp_path.iterdir()))}" / "run"
        shutil.copytree(half / "run", run, symlinks=True)
        way.spoil(run)
        before = contents(run)
        places = {"TASK": task, "CONFIG": str(half / "run.toml")}
        given = [places.get(argument, argument.replace("RUN", str(run))) for argument in arguments]
        end = forge.run("tests.console.test_malformed:call", run, *given)
        after = contents(run)
        allowed = (2, 3) if verb in way.refused else (0, 1) if verb in CHECKS else (0, 5)
        if end.code not in allowed:
            wrong.append(f"{verb} ends with {end.code}, not {allowed}")
        if verb in way.refused and " → " not in end.errors.splitlines()[-1]:
            wrong.append(f"{verb} names no remedy")
        if "Traceback" in end.errors or steers(end.errors):
            wrong.append(f"{verb} says {end.errors[-2000:]!r}")
        kept = all(after.get(old, b"").startswith(content) for old, content in before.items())
        if end.code in (2, 3) and not kept and verb not in way.late:
            wrong.append(f"{verb} has changed what was there")
        if verb in way.refused and verb not in way.late and after != before:
            wrong.append(
                f"{verb} has written {[key for key in after if after[key] != before.get(key)]}"
            )
    assert not wrong, "\n".join(wrong)
