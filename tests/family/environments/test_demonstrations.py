"""nano's teacher in generated worlds: well-formed conversations whose carelessness is what it
says."""

from __future__ import annotations

import random

import pytest

from rods import dialects
from rods.config import parse_config
from rods.family.environments.checking.scenarios import scenario_of
from rods.family.environments.demonstrations import careless, demonstrations
from rods.trainer.nano import model
from rods.trainer.nano.warm_start import recipe
from tests.family.environments.procedural.seeds import drawn


@pytest.mark.needs("sandbox")
def test_a_careful_teacher_earns_everything_and_a_careless_one_less() -> None:
    earned = {}
    for carelessness in (0.0, 1.0):
        traces = next(
            demonstrations(3, dialects.load("compact"), carelessness, worlds=1, scenarios=8)
        )
        assert traces and {trace.end for trace in traces} == {"finished"}
        earned[carelessness] = sum(trace.resolved == trace.expected for trace in traces) / len(
            traces
        )
    assert earned == {0.0: 1.0, 1.0: 0.0}


@pytest.mark.slow
@pytest.mark.needs("sandbox")
def test_every_list_of_demonstrations_mixes_all_worlds() -> None:
    lists = demonstrations(3, dialects.load("compact"), 0.5, worlds=3, scenarios=8)
    systems = [[trace.messages[0].content for trace in next(lists)] for _ in range(2)]
    assert sorted(systems[0]) == sorted(systems[1]) and systems[0] != systems[1]
    assert len(set(systems[0])) == 3 and all(len(set(each[:8])) > 1 for each in systems)


@pytest.mark.slow
@pytest.mark.needs("sandbox")
def test_a_skipped_look_up_passes_the_label_and_is_refused(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with drawn(tmp_path_factory) as (environment, tasks):
        errors: list[str | None] = []
        for number, task in enumerate(tasks):
            scenario = scenario_of(task)
            assert scenario is not None
            instance = environment.reset(task.state)
            calls = careless(environment, scenario, 1.0, random.Random(number))
            assert all(not environment.tools()[call.name].reads for call in calls)
            errors += [instance.call(call).error for call in calls]
        assert errors and None not in errors


def test_a_world_that_was_never_shown_has_tools_of_known_words() -> None:
    tokenizer = model.build_tokenizer(
        [" find_book title= set_loan_days"], model.PARTS, model.ENTRIES
    )
    tokens = tokenizer.tokenize(" find_loan loan= B12")
    assert (
        tokens[:2] == [" find", "_loan"]
        and tokenizer.decode(tokenizer(" find_loan K9")["input_ids"]) == " find_loan K9"
    )


@pytest.mark.needs("sandbox")
def test_where_the_warm_start_is_belongs_to_its_recipe() -> None:
    plain, there = (
        parse_config({"policy": {"warm_start": where}}, where="test")
        for where in ("desk", "generated")
    )
    assert recipe(plain) != recipe(there)
    with pytest.raises(Exception, match="has no demonstrations of recoveries"):
        parse_config({"policy": {"warm_start": "generated", "recoveries": 0.5}}, where="test")
