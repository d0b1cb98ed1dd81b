"""Cases judged by a person, in worlds that nobody here wrote and in the typed garage: the engine
gives the same verdicts (abroad.toml). The typed ones run always, the others with
`make mcp-servers`, which fetches the servers."""

from __future__ import annotations

import base64
import os
import sqlite3
import subprocess
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from rods.calls import Call, parse_python_call
from rods.console.main import run
from rods.environments.base import Environment, reference
from rods.environments.loading import Environments
from rods.episode.engine import Trace, Verdict
from rods.episode.goals import GroundTruth
from rods.gates.ground_truth import replayed
from rods.tasks import Task
from tests.rods.episode.test_asked import played

TABLE = tomllib.loads(Path(__file__).with_name("abroad.toml").read_text())
WORLDS: dict[str, dict[str, Any]] = TABLE["world"]
CASES: list[dict[str, Any]] = TABLE["cases"]
KINDS = {  # so many of each kind at least
    "twin": 8,
    "another tool": 6,
    "guess": 4,
    "dump": 4,
    "wrong id": 6,
    "wrong amount": 6,
    "never shown": 6,
    "failure": 6,
}
DIFFERENT = 6  # cases in which the engine's verdict is not the person's
Load: TypeAlias = Callable[[str], tuple[Environment, Environment]]


def parameters(*, typed: bool) -> list[Any]:
    numbers = Counter[str]()
    found = []
    for case in CASES:
        name = f"{case['world']}-{case['kind'].replace(' ', '-')}"
        numbers[name] += 1
        if typed == ("module" in WORLDS[case["world"]]):
            found.append(pytest.param(case, id=f"{name}-{numbers[name]}"))
    return found


def calls(texts: list[str]) -> tuple[Call, ...]:
    return tuple(parse_python_call(text, {}) for text in texts)


def task_of(case: Mapping[str, Any], environment: Environment) -> Task:
    return Task(
        reference(environment),
        "base",
        tuple(case["user"]),
        tuple(map(calls, case["truth"])),
        tuple(environment.tools()),
        state=state(WORLDS[case["world"]]),
    )


def state(world: Mapping[str, Any]) -> dict[str, Any] | None:
    """The initial state of a task: of the garage its own, of a server its files."""
    if "module" in world:
        from tests.worlds.garage import STATE

        return STATE
    files: dict[str, Any] = dict(world.get("files", {}))
    if "tables" in world:
        database = sqlite3.connect(":memory:")
        database.executescript(world["tables"])
        files["data.db"] = {"base64": base64.b64encode(database.serialize()).decode()}
        database.close()
    return {"files": files} if files else None


def words(trace: Trace) -> list[str]:
    """The verdicts of an episode in the table's words; what was guessed is `unshown` here."""
    return [word(turn.verdict) for turn in trace.turns]


def word(verdict: Verdict | None) -> str:
    if verdict is None:
        return "none"
    if not verdict.state:
        return "wrong"
    return "right" if verdict.response else "unshown"


def resolved(verdicts: list[str]) -> list[str]:
    return ["unshown" if word == "guessed" else word for word in verdicts]


def judge(case: Mapping[str, Any], world: Environment, believed: Environment) -> None:
    """Plays `case` in `world`, and in a copy of it in which every result is `believed`."""
    made = [calls(texts) for texts in case["made"]]
    one = task_of(case, world)
    _, reasons = replayed(world, one)
    now = ["refused"] if reasons else words(played(one, made, world))
    assert now == resolved(case.get("engine", case["now"])), (case["why"], reasons)
    same = task_of(case, believed)
    before = words(played(same, made, believed, GroundTruth(believed, same)))
    assert before == resolved(case["before"]), case["why"]


@pytest.mark.parametrize("case", parameters(typed=True))
def test_a_typed_world_s_case_is_judged_as_by_a_person(case: Mapping[str, Any]) -> None:
    environment = Environments().load(WORLDS[case["world"]]["module"])
    judge(case, environment, environment)


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    """The environment of a server's description, and of the same one without `fails`."""
    known: dict[str, tuple[Environment, Environment]] = {}
    numbers = count()

    def add(name: str, fails: list[str]) -> Environment:
        world = WORLDS[name]
        path = f"{name}_{next(numbers)}"
        options = [*world["options"], *fails, "--no-calls", "--", *world["command"]]
        assert run(["env", "add", path, *options]) == 0
        return Environments().load(f"{path}.json")

    def load(name: str) -> tuple[Environment, Environment]:
        if name not in known:
            if "commits" in WORLDS[name]:
                commit(WORLDS[name]["commits"])
            known[name] = (add(name, WORLDS[name]["fails"]), add(name, []))
        return known[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("abroad"))
        yield load


def commit(commits: list[list[str]]) -> None:
    """Makes a repository of these commits, a day each, with `draft` at the last but one. Nothing in
    it depends on this machine, so that its hashes are those of the table."""
    own = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

    def git(*command: str, day: int = 1) -> None:
        date = f"2026-01-0{day}T09:00:00Z"
        dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        subprocess.run(["git", "-C", "repository", *command], env=own | dates, check=True)

    Path("repository").mkdir()
    git("init", "-q", "-b", "main")
    git("config", "user.name", "Ann")
    git("config", "user.email", "ann@example.org")
    for day, (path, text, message) in enumerate(commits, 1):
        Path("repository", path).write_text(text)
        git("add", ".")
        git("commit", "-q", "-m", message, day=day)
    git("branch", "draft", "HEAD~1")


@pytest.mark.needs("mcp")
@pytest.mark.skipif(
    not os.environ.get("RODS_MCP"), reason="needs foreign servers: make mcp-servers"
)
@pytest.mark.parametrize("case", parameters(typed=False))
def test_a_server_s_case_is_judged_as_by_a_person(case: Mapping[str, Any], described: Load) -> None:
    judge(case, *described(case["world"]))


def test_the_table_holds_enough_of_each_kind_and_says_each_case_once() -> None:
    kinds = Counter(case["kind"] for case in CASES)
    assert kinds.keys() == KINDS.keys() and all(kinds[kind] >= KINDS[kind] for kind in KINDS)
    assert {case["world"] for case in CASES} == WORLDS.keys() and len(WORLDS) == 5
    once = {(case["world"], str(case["user"]), str(case["truth"]), str(case["made"]))
            for case in CASES}  # fmt: skip
    assert len(once) == len(CASES)
    for case in CASES:
        assert len(case["user"]) == len(case["truth"]) == len(case["made"]) == len(case["before"])
    kept = [case for case in CASES if resolved(case["now"]) == resolved(case["before"])]
    assert len(kept) * 2 >= len(CASES)
    assert sum("engine" in case for case in CASES) == DIFFERENT
