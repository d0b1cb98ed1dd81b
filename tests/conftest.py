"""What all tests share: tests of what was taken out (tests/test_removal.py) are not collected, and
those that say that they need it (`needs`) are skipped; property tests try the same examples each
time, and are never failed for the speed of the machine they run on (others:
`--hypothesis-profile=explore`); BFCL's tasks, whose data wheel is fetched once into the cache; one
real model server, for the tests that need one (`make llm-smoke`); of many cases of one test the few
that stand for them (`few`), while the others are for `make test-all` alone; and the last line of a
run that leaves tests out, which says how many."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from rods import known_keys
from rods.config import Endpoint
from rods.tasks import Task
from tests.parts import GONE, PARTS, ROOT

settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("rods", settings.get_profile("explore"), derandomize=True)
settings.load_profile("rods")

SMOKE = "RODS_LLM_SMOKE"
WHOLE = "RODS_WHOLE"  # set by `make test-all WHOLE=1`: nothing is tested by a part of it
# set where tests/test_removal.py runs what is skipped otherwise, of which nothing may pass
NEEDED = "RODS_NEEDED"
_IMPORTS = re.compile(
    r"^from ((?:rods\.worlds|rods\.family|rods\.trainer\.adapters|tests|bench|docs)[\w.]*)"
    r" import (.+)$",
    re.MULTILINE,
)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leaves out a file of tests that imports a folder that can be taken out and is gone, itself or
    by helpers."""
    return (
        True
        if re.fullmatch(r"test_.*\.py", collection_path.name) and _lacks(collection_path)
        else None
    )


def _lacks(file: Path) -> bool:
    """Whether `file` imports, when it is loaded, what is gone."""
    waiting = [file]
    seen = {file}
    while waiting:
        helpers, whole = _imported(waiting.pop())
        if not whole:
            return True
        waiting += helpers - seen
        seen |= helpers
    return False


@cache
def _imported(file: Path) -> tuple[frozenset[Path], bool]:
    """The files of tests and measurements that `file` imports, and whether all that it imports is
    there."""
    helpers: set[Path | None] = set()
    for module, names in _IMPORTS.findall(file.read_text(encoding="utf-8")):
        inner = [
            _file(f"{module}.{name.split()[0]}")
            for name in names.strip("() ").split(",")
            if name.strip()
        ]
        if _file(module) is None or (module in ("rods.worlds", "rods.family") and None in inner):
            return frozenset(), False
        helpers |= set() if module.startswith("rods.") else {_file(module), *inner}
    return frozenset(path for path in helpers if path is not None), True


def _file(module: str) -> Path | None:
    place = ROOT.joinpath(*module.split("."))
    return next(
        (path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Skips a test that needs a part that is gone."""
    needed = {part for mark in item.iter_markers("needs") for part in mark.args}
    if unknown := needed - PARTS.keys():
        raise pytest.UsageError(
            f"{item.nodeid} needs no part that there is: {', '.join(sorted(unknown))}"
        )
    if gone := sorted(needed.intersection(GONE)):
        reason = f"needs what is taken out: {', '.join(gone)}"
        held = (
            pytest.mark.xfail(reason=reason, strict=True)
            if os.environ.get(NEEDED)
            else pytest.mark.skip(reason)
        )
        item.add_marker(held)
    elif os.environ.get(NEEDED):
        item.add_marker(pytest.mark.skip("needs nothing that is taken out"))


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the cases that those of a `few` stand for."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for of_one in cases.values():
        mark = of_one[0].get_closest_marker("few")
        assert mark is not None
        kept = chosen([item.nodeid.partition("[")[2][:-1] for item in of_one], mark.args)
        for at, item in enumerate(of_one):
            if kept and at not in kept:  # a case that was asked for alone stands for itself
                item.add_marker(mark.kwargs.get("others", "sweep"))


def chosen(cases: Sequence[str], wanted: Sequence[int | str]) -> set[int]:
    """Places in `cases`, the ids of a test's parameters: of those that contain one of the wanted
    words, and of as many as a wanted number says, at equal distances from the first on."""
    places: set[int] = set()
    for one in wanted:
        if isinstance(one, str):
            places.update(at for at, case in enumerate(cases) if one in case)
        else:
            places.update(at * len(cases) // one for at in range(one))
    return places


@pytest.fixture(autouse=True)
def _keys_and_logs_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that one test has read ("secret") is no key in the words of another, and each test
    begins with structlog as it comes: what another test or a fixture of a whole file has configured
    (`logs.configure`, its level) would swallow its events."""
    monkeypatch.setattr(known_keys, "_known", set(known_keys._known))
    monkeypatch.setattr(known_keys, "_of_addresses", set(known_keys._of_addresses))
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def wheel_file() -> Path:
    found: Path = pytest.importorskip("rods.worlds.bfcl").fetch()
    return found


@pytest.fixture(scope="session")
def bfcl(wheel_file: Path) -> Any:
    return pytest.importorskip("rods.worlds.bfcl").environment()


@pytest.fixture(scope="session")
def tasks(wheel_file: Path) -> list[Task]:
    """BFCL's 800 tasks."""
    found: list[Task] = pytest.importorskip("rods.worlds.bfcl").tasks()
    return found


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """A small model on this machine's CPU, served by a real vLLM: the one that `make llm-smoke` has
    started for all its workers, or else one of this session."""
    if not os.environ.get(SMOKE):
        pytest.skip("needs a model server: make llm-smoke")
    from bench.fixtures.llm_server import LlmServer
    from bench.fixtures.llm_server.server import NAME, URL

    with ExitStack() as stack:
        address = (
            os.environ.get(URL)
            or stack.enter_context(LlmServer(tmp_path_factory.mktemp("llm") / "log")).url
        )
        yield Endpoint(model=NAME, urls=(address,), concurrency=64, read_seconds=240.0)


@pytest.fixture(scope="session")
def template() -> Path:
    """The folder of which `rods init` makes copies."""
    found: Path = pytest.importorskip("rods.family.new_world.verbs").TEMPLATE
    return found


LEFT_OUT = pytest.StashKey[int]()


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Counts the tests that the marks of a tier leave out."""
    for item in items:
        marks = [mark for mark in ("slow", "sweep") if item.get_closest_marker(mark)]
        if any(f"not {mark}" in item.config.option.markexpr for mark in marks):
            item.config.stash[LEFT_OUT] = item.config.stash.get(LEFT_OUT, 0) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Takes the count from a worker of pytest-xdist: each has left out the same tests, and the
    controller none."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if count := config.stash.get(LEFT_OUT, 0):
        terminalreporter.write_line(
            f"{count} slow tests and cases left out: make test-all runs them"
        )


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Where a model server was asked for, a test that was skipped has failed."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(LEFT_OUT, 0)
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get(SMOKE) and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
