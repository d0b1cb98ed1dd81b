"""Replay as a snapshot: a server that can only be called, as an environment with copies, equality
and a state."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from hypothesis import given, settings, strategies as st

from rods.calls import Call
from rods.environments.base import MOST_ANSWERED, Features, Parameter, Result, Tool, reference
from rods.environments.replay import Replayed, ReplayedWorld
from rods.episode.engine import NeedVerdict
from rods.episode.goals import GroundTruth, SharedGroundTruth, goal_of
from rods.errors import InfrastructureError, Unsupported, UserError
from rods.gates.ground_truth import replay
from rods.tasks import Task

TEXT = {"type": "string"}
TOOLS = {
    tool.name: tool
    for tool in (
        Tool("open", "Baskets", "Opens a basket.", (Parameter("owner", TEXT),)),
        Tool(
            "put",
            "Baskets",
            "Puts an item into a basket.",
            (Parameter("basket", TEXT), Parameter("item", TEXT)),
        ),
        Tool("drop", "Baskets", "Throws a basket away.", (Parameter("basket", TEXT),)),
        Tool("show", "Baskets", "Shows a basket.", (Parameter("basket", TEXT),)),
    )
}
OWNERS = ("Ann", "Bo")
ITEMS = ("milk", "tea")


class Baskets:
    """A server that makes up the handles of baskets, and can only be called. `starts` counts its
    worlds."""

    name = "baskets"
    hash = "1"
    features = Features(True, snapshot=False, fork=False, state_visible=False)

    def __init__(self, world: type[BasketWorld] | None = None) -> None:
        self.world = world or BasketWorld
        self.starts = 0

    def tools(self) -> Mapping[str, Tool]:
        return TOOLS

    def reset(self, state: Mapping[str, Any] | None) -> BasketWorld:
        if state and set(state) != {"open"}:
            raise ValueError("not such a state")
        self.starts += 1
        return self.world()


class BasketWorld:
    def __init__(self) -> None:
        self.baskets: dict[str, dict[str, Any]] = {}

    def call(self, call: Call) -> Result:
        if call.name not in TOOLS:
            return Result("no such tool", None, "unknown_tool")
        if call.name == "open":
            handle = f"b{uuid.uuid4().hex[:12]}"
            self.baskets[handle] = {"owner": call.arguments["owner"], "items": []}
            return _result({"id": handle})
        handle = call.arguments["basket"]
        if handle not in self.baskets:
            return Result(f"no basket {handle}", None, "tool")
        if call.name == "put":
            self.baskets[handle]["items"].append(call.arguments["item"])
        if call.name == "drop":
            del self.baskets[handle]
            return _result({"dropped": handle})
        return _result({"id": handle, **self.baskets[handle]})

    def snapshot(self) -> dict[str, Any]:
        raise Unsupported("no")

    def fork(self) -> BasketWorld:
        raise Unsupported("no")

    def same_state(self, other: object) -> bool:
        raise Unsupported("no")


class Numbered(BasketWorld):
    """Gives equal handles in every world."""

    def call(self, call: Call) -> Result:
        if call.name == "open":
            self.baskets[f"b{len(self.baskets):012}"] = {
                "owner": call.arguments["owner"],
                "items": [],
            }
            return _result({"id": list(self.baskets)[-1]})
        return super().call(call)


def _result(value: Any) -> Result:
    return Result(orjson.dumps(value).decode(), value)


def baskets(
    world: type[BasketWorld] | None = None, minted: Mapping[str, str] | None = None
) -> Replayed:
    patterns = {"basket": r'"id":"(b[0-9a-f]{12})"'} if minted is None else minted
    return Replayed(
        Baskets(world),
        reads=["show"],
        probes=[Call("show", {"basket": "{basket}"})],
        minted=patterns,
    )


def starts(environment: Replayed) -> int:
    assert isinstance(environment.inner, Baskets)
    return environment.inner.starts


def drawn(world: ReplayedWorld, rng: random.Random, count: int) -> list[tuple[Call, Result]]:
    """Random calls of a world, with the handles that it has shown."""
    handles = ["bffffffffffff"]
    made = []
    for _ in range(count):
        name = rng.choice(["open", "put", "put", "show", "drop"])
        handle = rng.choice(handles[-3:])
        arguments = {
            "open": {"owner": rng.choice(OWNERS)},
            "put": {"basket": handle, "item": rng.choice(ITEMS)},
        }.get(name, {"basket": handle})
        result = world.call(Call(name, arguments))
        if name == "open":
            handles.append(result.value["id"])
        made.append((Call(name, arguments), result))
    return made


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_two_servers_with_other_handles_give_equal_results_states_and_verdicts(seed: int) -> None:
    rng = random.Random(seed)
    one = baskets()
    other = baskets()
    first = one.reset(None)
    turns = [drawn(first, rng, rng.randrange(1, 4)) for _ in range(2)]
    calls = tuple(tuple(call for call, _ in turn) for turn in turns)
    task = Task(reference(one), "base", ("first", "second"), calls, tuple(TOOLS))
    truths = [GroundTruth(environment, task) for environment in (one, other)]
    expected = [Counter(result.text for _, result in turn) for turn in turns]
    assert [[Counter(dict(needed)) for needed in truth.needed] for truth in truths] == [
        expected
    ] * 2
    again = other.reset(None)
    shuffled = rng.random() < 0.5
    seen = list[str]()
    for turn, made in enumerate(turns):
        order = rng.sample(made, len(made)) if shuffled else made
        seen += [again.call(call).text for call, _ in order]
        need = NeedVerdict(turn, tuple(seen), len(made))
        verdicts = [truth.verdict(again, need) for truth in truths]
        assert verdicts[0] == verdicts[1]
        if not shuffled:
            assert verdicts[0].resolved


class Shelf(BasketWorld):
    """Begins with two baskets, which two tools show."""

    def __init__(self) -> None:
        super().__init__()
        for owner in OWNERS:
            self.baskets[f"b{uuid.uuid4().hex[:12]}"] = {"owner": owner, "items": []}

    def call(self, call: Call) -> Result:
        found = [{"id": handle, "owner": one["owner"]} for handle, one in self.baskets.items()]
        if call.name == "list":
            return _result(found)
        if call.name == "find":
            return _result(next(one for one in found if one["owner"] == call.arguments["owner"]))
        return super().call(call)


class Shelves(Baskets):
    def tools(self) -> Mapping[str, Tool]:
        find = Tool("find", "Baskets", "Finds the basket of an owner.", (Parameter("owner", TEXT),))
        return {**TOOLS, "find": find, "list": Tool("list", "Baskets", "Lists all baskets.")}


def test_a_handle_that_another_call_has_shown_is_the_same_handle() -> None:
    probes = [Call("list", {}), Call("show", {"basket": "{basket}"})]
    minted = {"basket": r'"id":"(b[0-9a-f]{12})"'}

    def shelf() -> Replayed:
        return Replayed(
            Shelves(Shelf), reads=["show", "list", "find"], probes=probes, minted=minted
        )

    first = shelf().reset(None)
    find = Call("find", {"owner": "Bo"})
    put = Call("put", {"basket": first.call(find).value["id"], "item": "milk"})
    first.call(put)
    for place, right in ((1, True), (0, False)):
        environment = shelf()
        task = Task(reference(environment), "base", ("Put milk into Bo's.",), ((find, put),), ())
        other = environment.reset(None)
        shown = other.call(Call("list", {}))
        call = Call("put", {"basket": shown.value[place]["id"], "item": "milk"})
        made = [(Call("list", {}), shown), (call, other.call(call))]
        assert call != put and other.same_state(first) is right
        need = NeedVerdict(0, [result.text for _, result in made], len(made), made)
        goal = goal_of(environment, task)
        assert isinstance(goal, SharedGroundTruth)
        assert goal.verdict(other, need).resolved is right


def test_copies_and_equality_agree_with_worlds_of_their_own_on_200_random_sequences() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        environment = baskets()
        world = environment.reset(None)
        before = drawn(world, rng, 4)
        copy = world.fork()
        state = world.snapshot()
        assert copy.same_state(world) and environment.reset(state).same_state(copy)
        after = drawn(world, random.Random(seed), 4)
        assert drawn(copy, random.Random(seed), 4) == after, "a copy goes on as its origin does"
        alone = baskets().reset(None)
        assert [alone.call(call) for call, _ in before + after] == [
            result for _, result in before + after
        ]
        assert copy.same_state(world) and alone.snapshot() == world.snapshot()
        added = copy.call(Call("open", {"owner": "Cy"})).value["id"]
        assert (
            not copy.same_state(world)
            and world.call(Call("show", {"basket": added})).error == "tool"
        )


def test_a_handle_is_named_by_the_call_that_made_it_and_not_by_when() -> None:
    one, other = (baskets().reset(None) for _ in range(2))
    ann = Call("open", {"owner": "Ann"})
    bo = Call("open", {"owner": "Bo"})
    first = one.call(ann)
    second = one.call(bo)
    assert (other.call(bo), other.call(ann)) == (second, first) and one.same_state(other)
    assert first.value["id"] != one.call(ann).value["id"], "the same call again makes another one"
    assert first.value["id"].startswith("basket-") and first.value["id"] in first.text


def test_a_copy_that_is_only_looked_at_costs_no_server() -> None:
    environment = baskets(Numbered, {})
    world = environment.reset(None)
    world.call(Call("open", {"owner": "Ann"}))
    copies = [world.fork() for _ in range(5)]
    assert all(copy.same_state(world) for copy in copies) and starts(environment) == 1
    assert (
        copies[0].call(Call("show", {"basket": "none"})).error == "tool"
        and starts(environment) == 1
    ), "a read"
    copies[0].call(Call("put", {"basket": "none", "item": "milk"}))
    assert starts(environment) == 1, "the first to go on takes the server"
    world.call(Call("drop", {"basket": "none"}))
    assert starts(environment) == 2


def test_reads_and_calls_that_were_refused_are_no_part_of_the_state() -> None:
    environment = baskets(Numbered, {})
    world = environment.reset({"open": True})
    before = world.snapshot()
    world.call(Call("show", {"basket": "none"}))
    world.call(Call("nothing"))
    assert world.snapshot() == before == {"open": True}
    world.call(Call("open", {"owner": "Ann"}))
    assert world.snapshot() == {
        "open": True,
        "calls": [{"name": "open", "arguments": {"owner": "Ann"}}],
    }
    refused: list[dict[str, Any]] = [
        {"other": 1},
        {"calls": "open"},
        {"calls": [{"arguments": {}}]},
    ]
    for illegal in refused:
        with pytest.raises(ValueError):
            environment.reset(illegal)


def test_a_repeated_call_that_answers_otherwise_is_the_machinerys_failure() -> None:
    environment = baskets(minted={})  # nobody says that handles are made up
    world = environment.reset(None)
    world.call(Call("open", {"owner": "Ann"}))
    copy = world.fork()
    world.call(Call("open", {"owner": "Bo"}))
    with pytest.raises(InfrastructureError, match="answers otherwise"):
        copy.call(Call("open", {"owner": "Bo"}))
    call = Call("open", {"owner": "Ann"})
    provenance = {"results": [[world.call(call).text]]}
    task = Task(
        reference(environment), "base", ("x",), ((call,),), ("open",), provenance=provenance
    )
    assert "recorded was" in str(replay(environment, task)[0])


def test_a_world_whose_server_broke_is_made_anew() -> None:
    class Breaking(BasketWorld):
        def call(self, call: Call) -> Result:
            if call.arguments.get("item") == "bomb":
                raise InfrastructureError("the server has gone")
            return super().call(call)

    environment = baskets(Breaking)
    world = environment.reset(None)
    handle = world.call(Call("open", {"owner": "Ann"})).value["id"]
    with pytest.raises(InfrastructureError):
        world.call(Call("put", {"basket": handle, "item": "bomb"}))
    assert world.call(Call("put", {"basket": handle, "item": "milk"})).value["items"] == ["milk"]
    assert starts(environment) == 2


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), TypeError(), KeyError("y"), RecursionError(), MemoryError(), OSError(28),
     UserError("no"), Unsupported("no"), KeyboardInterrupt()],
    ids=repr,
)  # fmt: skip
def test_a_step_whose_answer_is_lost_is_in_no_world_that_shared_it(error: BaseException) -> None:
    class Lossy(BasketWorld):
        def call(self, call: Call) -> Result:
            result = super().call(call)
            if call.arguments.get("item") == "bomb":
                raise error
            return result

    environment = baskets(Lossy)
    world = environment.reset(None)
    handle = world.call(Call("open", {"owner": "Ann"})).value["id"]
    twin = world.fork()
    machinery = InfrastructureError if isinstance(error, Exception) else type(error)
    with pytest.raises(machinery):
        world.call(Call("put", {"basket": handle, "item": "bomb"}))
    for other in (twin, world):
        assert other.call(Call("show", {"basket": handle})).value["items"] == []
    assert twin.same_state(world)


def test_a_long_answer_is_cut_and_says_so() -> None:
    class Wordy(BasketWorld):
        def call(self, call: Call) -> Result:
            size = call.arguments["size"]
            return Result("a" * size, ["a" * size], call.arguments.get("error"))

    world = baskets(Wordy).reset(None)
    whole = world.call(Call("show", {"size": MOST_ANSWERED}))
    assert whole.text == "a" * MOST_ANSWERED and whole.value == [whole.text]
    for error in (None, "tool"):
        result = world.call(Call("show", {"size": 20_000_000, "error": error}))
        assert result.text.startswith(whole.text) and len(result.text) < MOST_ANSWERED + 100
        assert "cut: 20000000 characters" in result.text
        assert result.value is None and result.error == error


def test_what_cannot_be_repeated_or_seen_is_refused() -> None:
    chance = Baskets()
    chance.features = Features(False, snapshot=False, fork=False, state_visible=False)
    environment = Replayed(chance)
    assert environment.features == Features(False, False, False, False)
    world = environment.reset(None)
    for ask in (world.snapshot, world.fork, lambda: world.same_state(world)):
        with pytest.raises(Unsupported):
            ask()
    with pytest.raises(ValueError, match="deterministic"):
        environment.reset({"calls": [{"name": "open", "arguments": {"owner": "Ann"}}]})
    assert Replayed(Baskets()).hash != Replayed(Baskets(), probes=[]).hash


def test_a_minted_value_too_short_to_be_told_apart_is_refused() -> None:
    class Counting(BasketWorld):
        def call(self, call: Call) -> Result:
            return _result({"id": 7})

    world = baskets(Counting, {"number": r'"id":(\d+)'}).reset(None)
    with pytest.raises(InfrastructureError, match="shorter than 4"):
        world.call(Call("open", {"owner": "Ann"}))


def test_a_minted_number_stays_a_number() -> None:
    class Numbers(BasketWorld):
        number = 0

        def call(self, call: Call) -> Result:
            if call.name == "show":
                return _result({"asked": call.arguments["basket"] == self.number})
            self.number = random.randrange(10_000, 99_999)
            return _result({"id": self.number, "told": f"basket {self.number}"})

    one, other = (baskets(Numbers, {"basket": r'"id":(\d+)'}).reset(None) for _ in range(2))
    first = one.call(Call("open", {"owner": "Ann"}))
    assert (
        first == other.call(Call("open", {"owner": "Ann"}))
        and orjson.loads(first.text) == first.value
    )
    assert first.value["told"] == f"basket {first.value['id']}"
    assert one.call(Call("show", {"basket": first.value["id"]})).value == {"asked": True}


def test_what_probes_show_can_be_read_and_a_probe_that_no_tool_answers_is_no_state() -> None:
    world = baskets().reset({"calls": [{"name": "open", "arguments": {"owner": "Ada"}}]})
    (value,) = (value for call, value in world.shown().items() if call.startswith("show("))
    assert value["owner"] == "Ada" and value["id"].startswith("basket-")
    hidden = Replayed(Baskets(), probes=[Call("show_all")]).reset(None)
    with pytest.raises(
        InfrastructureError, match=r"the probe show_all\(\) could not be carried out: no such tool"
    ):
        hidden.same_state(hidden.fork())
