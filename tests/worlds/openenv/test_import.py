"""Environments from outside, in process and behind an address, as ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.openenv_transcripts import moved, play, serving, told
from rods import known_keys
from rods.calls import Call
from rods.config import Endpoint
from rods.console.main import run
from rods.environments.base import MOST_ANSWERED, Environment, checks, reference
from rods.environments.loading import Environments
from rods.episode.goals import holds
from rods.errors import InfrastructureError, UserError
from rods.llm import connections
from rods.tasks import Task, task_lines
from rods.worlds.desk.generator import generate
from rods.worlds.openenv import sessions
from rods.worlds.openenv.description import OpenEnvDescription
from tests.environments import load
from tests.worlds.openenv.games import GuessGame, GuessObservation, Pantry

GAMES = "tests.worlds.openenv.games"


Added = Callable[..., Environment]


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Added:
    """`rods env add` with these options, and what is loaded from what it wrote."""
    monkeypatch.chdir(tmp_path)

    def add(name: str, *options: str) -> Environment:
        assert run(["env", "add", name, *options]) == 0
        return Environments().load(f"{name}.openenv.json")

    return add


def guess(number: int) -> Call:
    return Call("step", {"number": number})


def test_an_environment_of_actions_has_one_tool_and_what_it_shows_of_its_state_is_compared(
    added, capsys
):
    game = added("game", "--kind", "openenv", "--", f"{GAMES}:GuessGame")
    assert "Guess a number from 1 to 9." in capsys.readouterr().out, (
        "what a reset shows is said to whoever adds it"
    )
    (tool,) = game.tools().values()
    assert (tool.name, tool.description, tool.parameter_names) == (
        "step",
        "Guesses the number.",
        ("number",),
    )
    assert (
        tool.parameters[0].schema["maximum"] == 9
        and tool.parameters[0].description == "Your guess."
    )
    one = game.reset({"reset": {"seed": 3}})
    other = game.reset({"reset": {"seed": 3}})
    said = one.call(guess(9))
    assert said.text == '{"said":"lower"}' and said.value == {"said": "lower"}, (
        "neither reward nor end is told"
    )
    assert not one.same_state(other) and other.call(guess(9)) == said and one.same_state(other)
    assert one.call(guess(9)).text == "Error: you said that" and one.call(guess(9)).error == "tool"
    assert (
        one.call(guess(10)).error == "bad_arguments"
        and one.call(Call("jump")).error == "unknown_tool"
    )
    assert game.reset(one.snapshot()).same_state(one)
    with pytest.raises(ValueError, match="rows"):
        game.reset({"rows": []})


class Seedless(Pantry):
    def reset(self) -> str:  # type: ignore[override]
        return ""


class SeedlessGame(GuessGame):
    def reset(self) -> GuessObservation:  # type: ignore[override]
        return super().reset()


@pytest.mark.parametrize("kind, made", [("openenv", SeedlessGame), ("trl", Seedless)])
def test_a_seed_that_reset_does_not_take_is_refused(added, kind, made):
    environment = added("game", "--kind", kind, "--", f"{__name__}:{made.__name__}")
    assert environment.reset({"reset": {}})
    with pytest.raises(ValueError, match="unexpected keyword argument 'seed'"):
        environment.reset({"reset": {"seed": 3}})


def test_one_world_at_a_time_is_enough_for_many(added):
    game = added("game", "--kind", "openenv", "--", f"{GAMES}:GuessGame")
    worlds = [game.reset({"reset": {"seed": seed}}) for seed in range(4)]
    for number in range(1, 9):
        for world in worlds:
            world.call(guess(number))
        assert len(GuessGame.living) == 1
    alone = game.reset({"reset": {"seed": 2}})
    for number in range(1, 9):
        alone.call(guess(number))
    assert alone.same_state(worlds[2]) and not alone.same_state(game.reset({"reset": {"seed": 2}}))
    game.close()
    assert not GuessGame.living


def test_an_episode_is_worth_what_the_environment_gave(added):
    game = added("game", "--kind", "openenv", "--", f"{GAMES}:GuessGame")
    number = next(
        each for each in range(1, 10) if "right" in game.reset(None).call(guess(each)).text
    )
    wrong = number % 9 + 1
    check = Call("rewarded", {"at_least": 0.85})
    assert "rewarded" in checks(game) and "rewarded" not in game.tools()
    said = {
        "at once": [number],
        "second": [wrong, number],
        "late": [each for each in range(1, 10) if each != number] + [number],
        "over": [number, wrong],
    }
    earned = {}
    for how, numbers in said.items():
        world = game.reset(None)
        answers = [world.call(guess(each)) for each in numbers]
        earned[how] = holds(world, check)
        if how == "over":
            assert answers[-1].error == "hidden_tool" and "over" in answers[-1].text
    assert earned == {"at once": True, "second": True, "late": False, "over": True}


def test_a_class_for_trl_has_its_methods_as_tools_with_the_texts_that_trl_shows(added):
    pantry = added("pantry", "--kind", "trl", "--", f"{GAMES}:Pantry")
    assert list(pantry.tools()) == ["count", "put"]
    put = pantry.tools()["put"]
    assert put.description == "Puts something on a shelf."
    assert (
        put.parameters[0].description == "What it is called, in one word."
        and put.parameters[0].required
    )
    assert put.parameters[1].schema == {"enum": ["top", "bottom"], "type": "string"}
    assert put.parameters[1].default == "top"
    world = pantry.reset({"reset": {"shelves": {"top": ["tea"], "bottom": []}}})
    copy = world.fork()
    assert world.call(Call("put", {"thing": "jam", "shelf": "bottom"})).text == "{'things': 1}"
    assert world.call(Call("put", {"thing": "tea"})).text == "{'error': 'tea is there already'}"
    assert world.call(Call("count")).text == "2" and copy.call(Call("count")).text == "1"
    assert world.call(Call("put", {"thing": 5})).error == "bad_arguments"
    assert world.call(Call("_private")).error == "unknown_tool" == world.call(Call("reset")).error
    assert not world.same_state(copy)
    assert world.call(Call("rewarded", {"at_least": 1})).value is True
    assert copy.call(Call("rewarded", {"at_least": 1})).value is False


def test_its_tools_are_described_as_trl_describes_them(added):
    transformers = pytest.importorskip("transformers.utils")
    pantry = added("pantry", "--kind", "trl", "--", f"{GAMES}:Pantry")
    for name, tool in pantry.tools().items():
        theirs = transformers.get_json_schema(getattr(Pantry(), name))["function"]
        ours = tool.schema()
        assert ours["description"] == theirs["description"]
        for parameter, schema in theirs["parameters"]["properties"].items():
            told = ours["parameters"]["properties"][parameter]
            assert (
                " ".join(schema["description"].split()) == told["description"]
                and schema["type"] == told["type"]
            )
            assert schema.get("enum") == told.get("enum")
        assert theirs["parameters"].get("required", []) == ours["parameters"]["required"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["game", "pantry"])
def test_the_promises_of_the_seam_are_kept(name, added):
    kind, made = ("openenv", "GuessGame") if name == "game" else ("trl", "Pantry")
    environment = added(name, "--kind", kind, "--", f"{GAMES}:{made}")
    calls = (
        (guess(1), guess(2)) if name == "game" else (Call("put", {"thing": "salt"}), Call("count"))
    )
    task = Task(reference(environment), "base", ("Go.",), (calls,), tuple(environment.tools()))
    Path("tasks.jsonl").write_bytes(task_lines([task]))
    assert run(["env", "check", f"{name}.openenv.json", "--tasks", "tasks.jsonl"]) == 0


def test_what_cannot_be_reached_is_said_and_nothing_is_written(added, tmp_path, capsys):
    for options in (
        ("--kind", "openenv"),
        ("--kind", "trl", "--url", "http://127.0.0.1:1"),
        ("--kind", "openenv", "--", "no.such:Thing"),
        ("--kind", "trl", "--", f"{GAMES}:GuessState"),
        ("--kind", "openenv", "--", f"{GAMES}:Pantry"),
        ("--kind", "openenv", "--files", ".", "--", f"{GAMES}:GuessGame"),
    ):
        assert run(["env", "add", "none", *options]) == 2, options
    assert run(["env", "add", "none", "--kind", "openenv", "--url", "http://127.0.0.1:1"]) == 1
    assert "cannot be asked" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """One that this process has read for an endpoint."""
    monkeypatch.setattr(known_keys, "_known", set())
    monkeypatch.setenv("PLANTED_KEY", "sk-planted-5e1f0c77a9")
    asyncio.run(
        connections.read_key(
            Endpoint(model="m", urls=("http://127.0.0.1:1/v1",), key_env="PLANTED_KEY")
        )
    )
    return "sk-planted-5e1f0c77a9"


@pytest.mark.parametrize("before", [0, connections.MOST_COMPLAINT - 15, MOST_ANSWERED - 15])
def test_errors_repeat_no_key_and_are_bounded(key, before):
    class Leaking:
        def reset(self) -> None:
            raise ValueError("~" * before + key)

        def look(self) -> str:
            raise ValueError("~" * before + key + "~" * MOST_ANSWERED)

    session = sessions.MethodSession(Leaking())
    told = [
        session.call("look", {}).text,
        str(sessions.RefusedStep("EXECUTION_ERROR", "~" * before + key)),
    ]
    with pytest.raises(ValueError, match="reset is refused") as caught:
        session.begin({})
    for text in (*told, str(caught.value)):
        assert key[:6] not in text and len(text) < MOST_ANSWERED + 100


def test_an_address_holds_no_secret():
    for url in ("http://user:word@127.0.0.1:1", "http://127.0.0.1:1/mcp?key=word"):
        with pytest.raises(UserError, match="no user name, password or query") as caught:
            OpenEnvDescription.of("game", {"kind": "openenv", "url": url})
        assert "word@" not in str(caught.value) and "key=word" not in str(caught.value)


def test_tools_are_pinned(added, tmp_path):
    added("game", "--kind", "openenv", "--", f"{GAMES}:GuessGame")
    file = tmp_path / "game.openenv.json"
    file.write_text(file.read_text().replace("Your guess.", "His guess."))
    with pytest.raises(UserError, match="changed step"):
        Environments().load("game.openenv.json").reset(None)


def test_desk_behind_an_address_plays_as_desk_does(added):
    desk = load("desk")
    tasks = generate(0, 12, 0)
    with serving(desk) as address:
        far = added("far", "--kind", "openenv", "--url", address)
        assert far.tools().keys() == desk.tools().keys() and far.features.waits
        here = play(desk, tasks)
        there = play(far, [moved(task, far) for task in tasks])
    assert [told(trace) for trace in here] == [told(trace) for trace in there]
    assert any(trace.binary for trace in here) and "no_such_tool" in str(here)


@pytest.mark.slow
def test_episodes_share_the_sessions_that_a_server_gives_and_its_death_is_nobodys_failure(added):
    desk = load("desk")
    (task,) = generate(0, 1, 0)
    with serving(desk, sessions=2) as address:
        far = added("far", "--kind", "openenv", "--url", address)
        there = moved(task, far)
        assert [trace.binary for trace in play(far, [there] * 6)] == [
            trace.binary for trace in play(desk, [task] * 6)
        ]
        world = far.reset(there.state)
        copy = far.reset(there.state)
        for call in task.calls[0]:
            world.call(call)
        assert copy.call(task.calls[0][0]).text and far.reset(world.snapshot()).same_state(world)
    with pytest.raises(InfrastructureError):
        world.call(task.calls[0][0])
    (lost,) = play(far, [there])
    assert lost.end == "infrastructure"
