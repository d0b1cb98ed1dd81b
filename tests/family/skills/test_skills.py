"""What became of each function is told by the diagnosis of turns and summed over steps; variants
are drawn by it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
import pytest

from rods.calls import Call
from rods.config import parse_config
from rods.environments.loading import Environments
from rods.episode.diagnosis import diagnose, failed
from rods.errors import UserError
from rods.extension import new_folds
from rods.family.skills.extension import EXTENSION
from rods.family.skills.skills import Skills, drawing, practised
from rods.observations import Rollout
from tests.rods.episode.test_diagnosis import (
    DESK,
    FIND,
    LOOK,
    MOVE,
    NOWHERE,
    PAY,
    POOR,
    RIGHT,
    TASK,
    move,
    played,
)
from tests.rods.test_open_tasks import PERSONA

WORLDS = Environments()
VALUES: dict[str, Any] = {"policy": {"kind": "simulated"}, "skills": {"enabled": True}}
Turn = Sequence[Call | str]


def blamed(*turns: Turn, **given: Any) -> list[set[str]]:
    """By what each turn of an episode of TASK failed."""
    return [set(names) for names in failed(played(*turns, **given), TASK, DESK)]


@pytest.mark.parametrize(
    ("turn", "names"),
    [
        ((LOOK, MOVE), set()),
        ((NOWHERE, LOOK, MOVE), set()),  # erred and recovered
        ((LOOK,), {"transfer_money"}),
        ((MOVE,), {"get_balance"}),
        ((), {"get_balance", "transfer_money"}),
        ((LOOK, POOR), {"transfer_money"}),  # was refused
        ((LOOK, move(amount=30)), {"transfer_money"}),  # ran, with other arguments
        ((Call("get_balance", {"account": "taxes"}), MOVE), {"get_balance"}),
        # nothing was lacking: which of them is not known
        ((LOOK, MOVE, MOVE), {"get_balance", "transfer_money"}),
    ],
)
def test_a_turn_failed_by_the_functions_whose_calls_were_lacking(
    turn: Turn, names: set[str]
) -> None:
    assert blamed(turn, (), (FIND, PAY))[0] == names


def test_turns_without_a_label_failed_by_nothing_and_say_nothing() -> None:
    trace = played((LOOK,), cut="length")
    assert len(diagnose(trace, TASK, DESK)) == len(failed(trace, TASK, DESK)) == 1
    assert practised(trace, TASK, WORLDS) == {"get_balance": [1, 1], "transfer_money": [1, 0]}
    assert blamed((LOOK, MOVE), (), ()) == [set(), set(), {"find_bill", "pay_bill"}]


def test_a_rollout_says_of_each_function_and_pair_how_many_turns_needed_it_and_how_many_it_did_not_fail() -> (
    None
):
    well = {
        "find_bill": [1, 1],
        "find_bill → pay_bill": [1, 1],
        "get_balance": [1, 1],
        "pay_bill": [1, 1],
    }
    assert practised(played(*RIGHT), TASK, WORLDS) == {**well, "transfer_money": [1, 1]}
    unpaid = practised(played((LOOK,), (), (FIND,)), TASK, WORLDS)
    assert unpaid == {
        "find_bill": [1, 1],
        "find_bill → pay_bill": [1, 0],
        "get_balance": [1, 1],
        "pay_bill": [1, 0],
        "transfer_money": [1, 0],
    }
    guessed = practised(played((LOOK, MOVE), (), (PAY,)), TASK, WORLDS)
    assert guessed["pay_bill"] == [1, 1] and guessed["find_bill → pay_bill"] == guessed[
        "find_bill"
    ] == [1, 0]


def test_a_function_that_two_turns_need_is_counted_twice_and_one_that_a_turn_calls_twice_once() -> (
    None
):
    task = replace(
        TASK,
        id="",
        calls=((LOOK, MOVE), (LOOK, Call("get_balance", {"account": "taxes"})), (FIND, PAY)),
    )
    told = practised(played((LOOK, MOVE), (LOOK,), (FIND, PAY), task=task), task, WORLDS)
    assert told["get_balance"] == [2, 1]


def test_what_is_judged_as_a_whole_has_no_turns_and_a_run_without_skills_no_field() -> None:
    on, off = (
        parse_config({**VALUES, "skills": {"enabled": enabled}}, where="test")
        for enabled in (True, False)
    )
    trace = played(*RIGHT)
    assert EXTENSION.rollout(trace, TASK, WORLDS, on, 1) == {
        "skills": practised(trace, TASK, WORLDS)
    }
    assert EXTENSION.rollout(trace, TASK, WORLDS, off, 1) == {}
    assert EXTENSION.rollout(trace, PERSONA, WORLDS, on, 1) == {}


@pytest.mark.parametrize(
    "value",
    [[1, 1], {"a": 1}, {"a": [1]}, {"a": [0, 0]}, {"a": [1, 2]}, {"a": [1.0, 1]}, {"": [1, 1]}],
)
def test_a_trainer_of_ones_own_is_told_of_a_field_that_none_can_be(value: Any) -> None:
    rollout = {"resolved": 1, "expected": 1, "binary": 1, "end": "finished", "reward": 1.0}
    assert Rollout.from_json(rollout | {"skills": {"a": [2, 0]}}).added == {"skills": {"a": [2, 0]}}
    with pytest.raises(ValueError, match="skills says"):
        Rollout.from_json(rollout | {"skills": value})


def group(*told: Mapping[str, list[int]]) -> dict[str, Any]:
    """A group as it stands in the log, with what each rollout tells."""
    return {"rollouts": [{"skills": dict(one)} if one else {} for one in told]}


def folded(*steps: Sequence[dict[str, Any]], discount: float = 0.5) -> Skills:
    fold = Skills(discount)
    for number, groups in enumerate(steps, 1):
        assert fold.closing(groups) == {}
        fold.apply(number, groups)
    return fold


def test_turns_count_half_as_much_a_step_later_and_are_forgotten_when_they_count_for_nothing() -> (
    None
):
    first = [group({"read": [2, 1], "send": [1, 0]}, {"read": [1, 1]}), group({})]
    assert folded(first).known == {"read": (3.0, 2.0), "send": (1.0, 0.0)}
    second = [group({"send": [4, 4]})]
    assert folded(first, second).known == {"read": (1.5, 1.0), "send": (4.5, 4.0)}
    assert folded(first, second, first).known == {"read": (3.75, 2.5), "send": (3.25, 2.0)}
    assert list(folded(first, second, *[[]] * 10).known) == ["read", "send"]
    # 3 / 2 ** 13 is below a thousandth
    assert list(folded(first, second, *[[]] * 12).known) == ["send"]


def test_a_snapshot_goes_on_as_the_fold_does_and_what_was_read_stays() -> None:
    chance = random.Random(5)
    steps = [
        [group({chance.choice("abc"): [2, chance.randrange(3)]}) for _ in range(3)]
        for _ in range(50)
    ]
    whole = folded(*steps, discount=0.9)
    for cut in (1, 17, 49):
        first = folded(*steps[:cut], discount=0.9)
        second = Skills(0.9)
        before = orjson.dumps(first.known)
        second.load(orjson.loads(orjson.dumps(first.state())))
        known = first.known
        for number, groups in enumerate(steps[cut:], cut + 1):
            for fold in (first, second):
                fold.apply(number, groups)
        assert second.known == first.known == whole.known and orjson.dumps(known) == before


def weights(
    known: Mapping[str, tuple[float, float]], pick: str, floor: float = 0.5
) -> Mapping[str, float]:
    fold = Skills(1.0)
    fold.known = known
    return drawing(
        fold, parse_config({**VALUES, "skills": {"enabled": True, "floor": floor}}, where="test")
    )(pick)


def drawn(
    known: Mapping[str, tuple[float, float]], floor: float = 0.5, picks: int = 2000
) -> dict[str, float]:
    """The mean weight of each over many picks."""
    totals: Counter[str] = Counter()
    for pick in range(picks):
        totals.update(weights(known, f"{pick}-task", floor))
    return {name: total / picks for name, total in totals.items()}


def test_what_goes_well_half_of_the_time_is_preferred_and_what_was_never_practised_has_the_floor() -> (
    None
):
    known = {"half": (100.0, 50.0), "sure": (100.0, 95.0), "never": (100.0, 2.0), "new": (0.0, 0.0)}
    means = drawn(known)
    assert means["half"] > 1.7 and means["sure"] < 0.4 and means["never"] < 0.2
    assert means["new"] == pytest.approx(1.0, abs=0.05)  # the floor, by which weights are divided
    assert drawn(known, floor=1.0)["half"] == pytest.approx(means["half"] / 2, abs=0.01)
    # nothing is out of the question
    assert weights({"sure": (1e6, 1e6)}, "1-task") == {"sure": 0.02}
    assert weights(known, "1-task") == weights(known, "1-task") != weights(known, "2-task")


def test_functions_that_stay_the_seeds_cannot_be_drawn() -> None:
    with pytest.raises(UserError, match=r"skills\.enabled"):
        parse_config({**VALUES, "pipeline": {"functions": "same"}}, where="test")


def test_nothing_is_folded_where_skills_are_off_as_in_the_papers_preset() -> None:
    for values in (
        {"policy": {"kind": "simulated"}},
        {"preset": "rods-paper", "policy": {"kind": "simulated"}},
    ):
        assert "skills" not in new_folds(parse_config(dict(values), where="test"))
    assert "skills" in new_folds(parse_config(VALUES, where="test"))
