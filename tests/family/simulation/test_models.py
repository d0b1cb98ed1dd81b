"""Models play tools, user and verifier, behind a real HTTP server; whatever breaks there is
nobody's failure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import pytest
import structlog
from structlog.testing import LogCapture

from bench.fixtures.llm_stub import Script, Stub
from rods.analysis.schemas import Checker
from rods.asking import Question, Unreadable
from rods.calls import Call
from rods.config import Budgets, Endpoint, parse_config
from rods.conversations import Persona, Rubric, Script as Scripted
from rods.episode.engine import Trace
from rods.episode.model_thread import ModelThread
from rods.errors import InfrastructureError, UserError
from rods.family.simulation.difficulty import Levels
from rods.family.simulation.generating import Wanted
from rods.family.simulation.ledger import Ledger, ToolAnswer
from rods.family.simulation.models import ModelGenerator, ModelWorld, Unusable
from rods.family.simulation.players import simulation_of
from rods.family.simulation.repository import shipped
from rods.family.simulation.settings import SimulationSettings
from rods.family.simulation.world import RepositoryEnvironment
from rods.gates.ground_truth import unjudgeable
from rods.llm import Budget, Client
from rods.players import Players
from rods.prompts import load
from rods.tasks import OpenTask
from tests.environments import ENVIRONMENTS
from tests.family.simulation.conversations import (
    DONE,
    TAGS,
    drawn,
    expected,
    one_drawn,
    play,
    played,
    witness,
)

ROLES = "bench.fixtures.llm_stub.players:answer"
FAULTY = "bench.fixtures.llm_stub.faulty_players:"
ALL: dict[str, Any] = {"tools": "model", "user": "model", "verifier": "model"}
TASK = one_drawn(
    Levels(tools=4, calls=2, turns=1, system=1, persona=1, ambiguity=1, criteria=4), 9, 3
)
BRIEF = {"simulated_tool": "tools", "simulated_user": "user", "simulated_verifier": "verifier"}


@pytest.fixture(scope="module")
def bodies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bodies") / "bodies.jsonl"


@pytest.fixture(scope="module")
def server(bodies: Path) -> Iterator[Stub]:
    with Stub(bodies=bodies) as running:
        yield running


@pytest.fixture
def stub(server: Stub, bodies: Path) -> Stub:
    server.use(Script(answer=ROLES))
    server.forget()
    bodies.write_bytes(b"")
    return server


def simulating(**settings: Any) -> Players:
    return Players(ENVIRONMENTS, parse_config({"simulation": {**ALL, **settings}}, where="test"))


@contextmanager
def models(
    stub: Stub, budget: Budget | None = None, read_seconds: float = 20.0, **settings: Any
) -> Iterator[Players]:
    times: dict[str, Any] = {
        "read_seconds": read_seconds,
        "retry_seconds": 0.2,
        "patience_seconds": 0.2,
    }
    endpoint = Endpoint(model="stub", urls=(stub.url,), **times)
    players = simulating(**settings)
    with ModelThread(lambda: Client([endpoint], budget=budget)) as simulation_of(players).line:
        yield players


def asked(bodies: Path) -> dict[str, list[str]]:
    """The bodies that the server has seen, by role."""
    systems = {
        load(role).render_sections(**dict.fromkeys(load(role).fields, ""))["system"]: role
        for role in BRIEF
    }
    found: dict[str, list[str]] = {role: [] for role in BRIEF}
    for line in bodies.read_text().splitlines():
        found[systems[json.loads(line)["messages"][0]["content"]]].append(line)
    return found


def spoken(body: str) -> str:
    """What a request says."""
    return "\n".join(message["content"] for message in json.loads(body)["messages"])


def contradictions(traces: list[Trace]) -> int:
    """The results that cannot be after what was shown before, whoever has answered."""
    count = 0
    for trace in traces:
        ledger = Ledger(shipped().tools)
        steps = [step for turn in trace.turns for step in turn.steps]
        for call, result in (
            pair for step in steps for pair in zip(step.calls, step.results, strict=True)
        ):
            assert result.error in (None, "tool")
            value = json.loads(result.text)
            answer = ToolAnswer("ok", value) if result.error is None else ToolAnswer("refused")
            if "not found" in result.text:
                answer = ToolAnswer("not_found")
            if ledger.contradictions(call, answer):
                count += 1
            else:
                ledger.record(call, answer)
    return count


@pytest.mark.slow
def test_models_play_and_judge_and_nothing_that_contradicts_itself_reaches_the_policy(
    stub: Stub,
) -> None:
    tasks = drawn()[::4]
    twice = [[*replies[:-1], *replies[:-1], DONE] for replies in map(witness, tasks)]
    roomy = [replace(task, limits=None, id="") for task in tasks]
    with models(stub) as players:
        traces = played(
            [players.job(task, TAGS, max_steps=8) for task in tasks], list(map(witness, tasks))
        )
        assert [trace.resolved for trace in traces] == [2] * len(tasks)
        assert {trace.end for trace in traces} == {"finished"}
        assert all(trace.outcome is not None and len(trace.outcome.notes) == 2 for trace in traces)
        stub.use(Script(answer=f"{FAULTY}contradicting"))
        jobs = [players.job(task, TAGS, max_steps=8) for task in roomy]
        lied = played(jobs, twice)
        assert len(lied) >= 20 and contradictions(lied) == 0
        assert "infrastructure" not in {trace.end for trace in lied}
    with models(stub, ledger=False) as stateless:
        jobs = [stateless.job(task, TAGS, max_steps=8) for task in roomy]
        assert contradictions(played(jobs, twice)) > 0


def test_a_server_is_told_to_let_no_tool_say_ok_without_a_result(stub: Stub, bodies: Path) -> None:
    with models(stub) as players:
        (trace,) = played([players.job(TASK, TAGS, max_steps=8)], [witness(TASK)])
    sent = [
        json.loads(line)["response_format"]["json_schema"]["schema"]
        for line in asked(bodies)["simulated_tool"]
    ]
    assert trace.end == "finished" and sent
    for schema in sent:
        held = Checker(schema)
        refusal = {"reason": "so", "status": "refused", "message": "no"}
        assert held.fault({"reason": "so", "status": "ok"}) and held.fault(
            {**refusal, "status": "ok"}
        )
        assert not held.fault(refusal) and not held.fault({**refusal, "status": "not_found"})


def test_without_a_call_or_with_text_that_cannot_be_read_no_verifier_is_asked(
    stub: Stub, bodies: Path
) -> None:
    with models(stub, user="procedural") as players:
        job = players.job(TASK, TAGS, max_steps=8)
        silent, garbled = played([job, job], [[DONE], ["<tool_call>[", *witness(TASK)]])
    assert [(trace.resolved, trace.expected) for trace in (silent, garbled)] == [(0, 2), (0, 2)]
    assert not asked(bodies)["simulated_verifier"]


@pytest.mark.parametrize("role", BRIEF)
def test_what_a_role_is_not_told_stands_in_none_of_its_requests(
    stub: Stub, bodies: Path, role: str
) -> None:
    marks = {"intent": "ZEBRA", "persona": "WALRUS", "expected": "QUAGGA"}
    persona = Persona(
        "The ZEBRA wants a book.",
        "A book.",
        {"title": "the ZEBRA one"},
        "gruff as a WALRUS",
        turns=3,
    )
    rubric = Rubric(("intent", "It is polite."), (Call("search_books", {"query": "QUAGGA"}),))
    task = replace(
        TASK, user=persona, goal=rubric, tools=("search_books", "get_book"), limits=None, id=""
    )
    replies = [
        TAGS.write([Call("search_books", {"query": "maps"})]),
        TAGS.answer("Which one?"),
        DONE,
    ]
    told = {
        "tools": {"intent"},
        "user": {"intent", "persona"},
        "verifier": {"intent", "persona", "expected"},
    }
    for hidden in (None, "intent", "persona", "expected"):
        left = [
            name
            for name in ("intent", "persona", "expected")
            if name in told[BRIEF[role]] and name != hidden
        ]
        told_so: dict[str, Any] = {f"{BRIEF[role]}_told": tuple(left)}
        with models(stub, **told_so) as players:
            bodies.write_bytes(b"")
            assert play(players, task, replies).end == "finished"
        requests = asked(bodies)[role]
        assert requests
        for name, mark in marks.items():
            assert any(mark in body for body in requests) == (name in left), (hidden, name)


def test_without_intent_no_role_is_told_what_is_wanted_of_drawn_and_of_written_tasks(
    stub: Stub, bodies: Path
) -> None:
    untold: dict[str, Any] = {
        "tools_told": (),
        "user_told": ("persona",),
        "verifier_told": ("persona",),
    }
    world = ENVIRONMENTS.load("repository")
    vague = Levels(4, 2, 1, 1, 1, 2, 4)
    assert isinstance(world, RepositoryEnvironment)
    with models(stub, generator="model") as players:
        written = ModelGenerator(simulation_of(players), world, 4)(
            [Wanted(9, slot, 50, vague) for slot in range(4)]
        )
    for task in [*(one_drawn(vague, 9, step) for step in range(4)), *written]:
        assert isinstance(task.user, Persona)
        call = TAGS.write(expected(task)[:1])
        documents = json.dumps([world.tools()[name].schema() for name in task.tools])
        said = f"{task.user.query} {call} {documents}"
        details = [
            words for words in task.user.knows.values() if len(words) >= 8 and words not in said
        ]
        assert details and "what is wanted" in task.user.knows
        ask = TAGS.answer(f"Could you tell me: {', '.join(task.user.knows)}?")
        wishes = {role: [task.user.intent, *details] for role in BRIEF} | {
            "simulated_tool": [task.user.intent]
        }
        for told in ({}, untold):
            bodies.write_bytes(b"")
            with models(stub, **told) as players:
                play(players, replace(task, limits=None, id=""), [call, ask, DONE])
            for role, requests in asked(bodies).items():
                shown = "\n".join(map(spoken, requests))
                assert shown and all((words in shown) == (not told) for words in wishes[role]), (
                    role,
                    bool(told),
                )


@pytest.mark.parametrize(
    "fault",
    ["stall", "cut_json", "500", "length", "not_json", "empty_choices", "abort", "content_filter"],
)
def test_players_that_break_are_nobody_s_failure(stub: Stub, fault: str) -> None:
    with models(stub, read_seconds=0.3 if fault == "stall" else 20.0) as players:
        job = players.job(TASK, TAGS, max_steps=8)
        for role in BRIEF:
            begin = load(role).sections["system"].partition(".")[0]
            stub.use(Script(answer=ROLES, rules=[(begin, fault)]))
            (trace,) = played([job], [witness(TASK)])
            assert (trace.end, trace.outcome, trace.resolved) == ("infrastructure", None, 0), role


def test_a_server_that_is_gone_breaks_episodes_and_then_they_go_on(stub: Stub) -> None:
    gone = Stub(Script(answer=ROLES))
    with models(gone) as players:
        job = players.job(TASK, TAGS, max_steps=8)
        assert played([job], [witness(TASK)])[0].end == "finished"
        gone.stop()
        traces = played([job] * 4, [witness(TASK)] * 4)
        assert {trace.end for trace in traces} == {"infrastructure"}


def test_a_tool_of_a_megabyte_and_a_user_without_end(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = LogCapture()  # whatever another test has set up
    logger = structlog.wrap_logger(None, processors=[told], wrapper_class=structlog.BoundLogger)
    monkeypatch.setattr("rods.family.simulation.models.log", logger)
    with models(stub) as players:
        job = players.job(TASK, TAGS, max_steps=8)
        stub.use(Script(answer=f"{FAULTY}huge"))
        assert played([job], [witness(TASK)])[0].end == "infrastructure"
        assert [(one["role"], one["of"]) for one in told.entries] == [("simulated_tool", TASK.id)]
        assert "characters, at most 100000 are read" in told.entries[0]["why"]
        stub.use(Script(answer=f"{FAULTY}endless"))
        assert isinstance(TASK.user, Persona)
        free = replace(TASK, limits=None, id="")
        (trace,) = played([players.job(free, TAGS, max_steps=8)], [witness(TASK)])
        assert trace.end == "finished" and len(trace.turns) == TASK.user.turns


def test_a_budget_that_is_spent_stops_with_what_to_do(stub: Stub) -> None:
    with models(stub, Budget(Budgets(requests=2))) as players:
        job = players.job(TASK, TAGS, max_steps=8)
        with pytest.raises(
            UserError,
            match=r"operation.player_budgets: the budget of 2 requests is spent → raise it",
        ):
            played([job] * 3, [witness(TASK)] * 3)
    assert stub.counts()["requests"] == 2


def test_a_model_thinks_up_tasks_of_a_step_together(stub: Stub) -> None:
    given = Levels(tools=3, calls=2, turns=1, system=2, persona=1, ambiguity=1, criteria=2)
    wanted = [Wanted(step, slot, 50, given) for step in (1, 2) for slot in (0, 1)]
    stub.use(Script(answer=ROLES, latency=0.05))
    world = ENVIRONMENTS.load("repository")
    assert isinstance(world, RepositoryEnvironment)
    with models(stub, generator="model") as players:
        draw = ModelGenerator(simulation_of(players), world, 4)
        tasks = draw(wanted)
        again = draw(wanted[:1])
        assert stub.counts()["most_in_flight"] == 4
        assert tasks[0] == again[0] and len({task.id for task in tasks}) == 4
        for task in tasks:
            assert isinstance(task, OpenTask)
            assert len(task.tools) == 3 and 1 <= len(task.goal_calls) <= 2
            assert task.provenance["levels"] == asdict(given) and unjudgeable(world, task) == []
        stub.use(Script(answer=ROLES, faults={"not_json": 1.0}))
        stub.forget()
        with pytest.raises(
            InfrastructureError, match="simulated_task gave no usable answer in 4 tries"
        ):
            draw(wanted[:1])
        assert stub.counts()["requests"] == 12  # over three sets of tools


def test_a_script_may_be_judged_by_a_model(stub: Stub) -> None:
    goal = Rubric(("It is polite.",), expected(TASK))
    task = replace(TASK, user=Scripted(("Hello.", "Thank you.")), goal=goal, limits=None, id="")
    with models(stub, tools="procedural") as players:
        trace = play(players, task, [TAGS.write(expected(TASK)), DONE, DONE])
    assert trace.end == "finished" and trace.outcome is not None and trace.resolved == 2


def test_an_answer_that_shows_nothing_of_what_a_later_call_needs_is_asked_for_again() -> None:
    world = ENVIRONMENTS.load("repository")
    assert isinstance(world, RepositoryEnvironment)
    calls = (
        Call("list_flight_bookings", {"passenger": "Jonas Weber"}),
        Call("add_luggage", {"booking_id": "BKG-77120", "bags": 2}),
    )
    task = replace(
        TASK,
        user=Persona(
            "Two bags more.", "Two bags more for Jonas Weber, please.", {"bags": "2"}, "", 2, ()
        ),
        goal=Rubric(("intent",), calls),
        tools=tuple(call.name for call in calls),
        id="",
    )
    played = ModelWorld(simulation_of(simulating()), task, world)
    booking = {
        "booking_id": "BKG-10000",  # another one is right, too
        "flight_id": "FL-2020",
        "passenger": "Jonas Weber",
        "cabin": "economy",
        "bags": 0,
        "status": "confirmed",
        "total": 260,
    }
    told = [
        played._objections(calls[0], ToolAnswer("ok", {"bookings": shown}))
        for shown in ([], [booking])
    ]
    assert told == [["it shows no booking_id, which the errand needs later"], []]


def test_what_a_later_call_takes_a_list_of_is_shown_one_by_one() -> None:
    world = ENVIRONMENTS.load("repository")
    assert isinstance(world, RepositoryEnvironment)
    search = Call("search_songs", {"query": "Take Five"})
    playlist = Call("create_playlist", {"name": "First Steps", "song_ids": ["SNG-20417"]})
    persona = Persona("A list.", "Find Take Five, for a list First Steps.", {}, "", 2, ())
    tools = (search.name, playlist.name)
    goal = Rubric(("intent",), (search, playlist))
    task = replace(TASK, user=persona, goal=goal, tools=tools, id="")
    played = ModelWorld(simulation_of(simulating()), task, world)
    assert played.found == [Call("create_playlist", {"song_ids": ["SNG-20417"]})]
    songs = world.reset({"random_seed": 3}).call(search).value
    answers = ToolAnswer("ok", {**songs, "songs": []}), ToolAnswer("ok", songs)
    assert [len(played._objections(search, answer)) for answer in answers] == [1, 0]


class Obstinate:
    """Plays tools by one answer, however often it is told what is wrong with it."""

    settings = SimulationSettings()
    random_seed = 0

    def __init__(self, **value: Any) -> None:
        self.value = value

    def answer(self, account: str, question: Question[ToolAnswer]) -> ToolAnswer:
        assert question.check is not None
        given = ToolAnswer("ok", self.value)
        try:
            asyncio.run(cast(Any, question.check(given)))
        except Unreadable as unreadable:
            raise Unusable(str(unreadable)) from None
        return given


def test_what_is_known_holds_against_a_model_that_will_not_keep_it() -> None:
    world = ENVIRONMENTS.load("repository")
    assert isinstance(world, RepositoryEnvironment)
    shows = Call("get_flight_booking", {"booking_id": "BKG-77120"})
    adds = Call("add_luggage", {"booking_id": "BKG-77120", "bags": 2})
    lists = Call("list_flight_bookings", {"passenger": "Jonas Weber"})
    task = replace(
        TASK,
        user=Persona("Bags.", "Two bags more.", {"bags": "2"}, "", 2, ()),
        goal=Rubric(("intent",), (lists, adds)),
        tools=(lists.name, shows.name, adds.name),
        id="",
    )
    booking = {
        "booking_id": "BKG-77120",
        "flight_id": "FL-2020",
        "passenger": "Jonas Weber",
        "cabin": "economy",
        "bags": 0,
        "status": "confirmed",
        "total": 260,
    }
    played = ModelWorld(cast(Any, Obstinate(bookings=[])), task, world)
    shown = played.call(lists)
    assert shown.error is None and shown.value["bookings"][0]["booking_id"]
    assert shown.value["bookings"][0]["passenger"] == "Jonas Weber"
    played = ModelWorld(cast(Any, Obstinate(bookings=[booking])), task, world)
    assert played.call(lists).value == {"bookings": [booking]}
    played.models = cast(
        Any, Obstinate(**{**booking, "cabin": "business", "bags": 2, "total": 300})
    )
    added = played.call(adds)
    assert added.error is None and added.value["bags"] == 2
    assert added.value.get("cabin", "economy") == "economy"
