"""Worlds in more environments than there may be processes: never more of these, and nobody
notices."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rods.calls import Call
from rods.config import Sandbox
from rods.environments.base import Environment, Instance
from rods.environments.loading import Environments
from rods.errors import InfrastructureError
from rods.functions import named_function
from rods.worlds.sandbox import process_pool
from rods.worlds.sandbox.confined import Confiner, offered
from tests.worlds.small_tasks import small_worlds

TOY = "tests.rods.toy_environment:"
WORLDS = 5


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def names(home: Path) -> list[str]:
    return small_worlds(home, WORLDS)


def children() -> set[str]:
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has just ended
            found.update((task / "children").read_text().split())
    return found


@pytest.fixture
def most() -> Iterator[Callable[[], int]]:
    """How many processes there were at once, watched all the time from now on."""
    offered()  # which starts a process itself
    before = children()
    counts = [0]
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.001):
            counts.append(len(children() - before))

    watcher = threading.Thread(target=look)
    watcher.start()
    yield lambda: max(counts)
    over.set()
    watcher.join()


def steps(instance: Instance, seed: int, count: int) -> Iterator[str]:
    """What a world answers to calls, its copies too; some of them fill a jar until its
    environment's own refusal."""
    rng = random.Random(seed)
    for _ in range(count):
        amount = rng.randrange(1, 60)
        yield instance.call(Call("fill", {"jar": rng.choice("ab"), "more": amount})).text
        copy = instance.fork()
        assert copy.same_state(instance)
        yield copy.call(Call("fill", {"jar": "a", "more": 50})).text
        yield instance.call(Call("jars", {})).text


def in_turns(environments: list[Environment], count: int) -> list[list[str]]:
    """Two episodes in each environment, a step of each in turn."""
    made = [
        environment.reset({"jars": {"a": 1}, "log": []})
        for environment in environments
        for _ in range(2)
    ]
    playing = [steps(instance, number, count) for number, instance in enumerate(made)]
    found: list[list[str]] = [[] for _ in playing]
    for _ in range(3 * count):
        for said, episode in zip(found, playing, strict=True):
            said.append(next(episode))
    return found


@pytest.mark.slow
def test_worlds_that_come_back_answer_as_if_they_had_never_left(
    home: Path, names: list[str], most: Callable[[], int]
) -> None:
    plain = [named_function(f"{home}/{name}", where="test")() for name in names]
    with Environments(Sandbox(workers=1, processes=2, seconds=30.0), home) as environments:
        confined = [environments.load(name) for name in names]
        assert in_turns(confined, 1) == in_turns(plain, 1)
        assert all(one.hash == other.hash for one, other in zip(confined, plain, strict=True))
        assert 0 < most() <= 2
    # they differ
    assert (
        len({text for said in in_turns(plain, 40) for text in said if "is full" in text}) == WORLDS
    )


@pytest.mark.slow
def test_threads_wait_for_a_place_and_spare_processes_are_among_the_counted(
    home: Path, names: list[str], most: Callable[[], int]
) -> None:
    found: dict[str, list[str]] = {}
    with Environments(Sandbox(workers=1, processes=4, seconds=30.0), home) as environments:

        def play(name: str) -> None:
            found[name] = list(steps(environments.load(name).reset(None), 7, 10))

        threads = [threading.Thread(target=play, args=(name,)) for name in names]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert (
            isinstance(environments._confiner, Confiner)
            and environments._confiner._spares.count == 1
        )
        assert 0 < most() <= 4
    plain = named_function(f"{home}/{names[0]}", where="test")()
    assert [len(said) for said in found.values()] == [30] * WORLDS
    assert found[names[0]] == list(steps(plain.reset(None), 7, 10))


def test_what_cannot_be_made_again_stays_as_long_as_somebody_is_in_it(
    home: Path, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_pool, "WORLD_REMADE", 0.5)
    chancy = TOY + "honestly_nondeterministic"
    with Environments(
        Sandbox(environments=(chancy,), workers=1, processes=1, seconds=30.0), home
    ) as environments:
        world = environments.load(chancy).reset(None)
        assert world.call(Call("count", {"name": "x"})).error is None
        with pytest.raises(
            InfrastructureError, match=r"hold worlds that cannot be made again \(operation.sandbox"
        ):
            environments.load(names[0])
        assert world.call(Call("total", {})).error is None
        del world
        gc.collect()
        assert environments.load(names[0]).reset(None).call(Call("jars", {})).value == []
        assert environments.load(chancy).reset(None).call(Call("total", {})).error is None


def test_a_forked_process_has_all_places(home: Path, names: list[str]) -> None:
    with Environments(Sandbox(workers=1, processes=1, seconds=30.0), home) as environments:
        environment = environments.load(names[0])
        if not (pid := os.fork()):
            text = environment.reset(None).call(Call("jars", {})).text
            os._exit(text != "[]")
        assert os.waitpid(pid, 0)[1] == 0
        assert environment.reset(None).call(Call("jars", {})).text == "[]"
