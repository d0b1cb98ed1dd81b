"""nano: words that round-trip, a teacher whose carelessness is what it says, a warm start that is
made once."""

import json
import random
from pathlib import Path

import pytest
import torch
from hypothesis import assume, given, settings, strategies as st
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from docs.generate.nano_weights import LOSSES
from rods import console, dialects
from rods.composing.catalogue import catalogue_for
from rods.config import Config, parse_config, read_config
from rods.trainer.chat import Chat
from rods.trainer.nano import model
from rods.trainer.nano.supervised import encode, imitation_loss, in_batches
from rods.trainer.nano.teacher import Teacher, kind_of
from rods.trainer.nano.warm_start import (
    SHIPPED,
    _demonstrations,
    demonstrated,
    make,
    recipe,
    shown,
    trained,
    warm_started,
)
from rods.trainer.policy import TrainingStopped
from rods.worlds import desk
from tests.environments import load
from tests.trainer import nano_parts

CHAT = nano_parts.chat()


@settings(max_examples=60)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_every_text_encodes_and_decodes_to_itself(text):
    assume(not any(mark in text for mark in CHAT.tokenizer.all_special_tokens))  # they are no text
    assert CHAT.text(CHAT.tokens(text)) == text


def test_a_word_is_one_token_wherever_it_stands():
    said = CHAT.tokens(" I want you to, please.")
    called = CHAT.tokens("! find_contact name= please")
    assert len(called) == 4 and called[-1:] == CHAT.tokens(" please") and called[-1] in said
    assert len(CHAT.tokenizer) <= model.ENTRIES


def test_the_network_has_about_half_a_million_parameters():
    full = model.fresh(CHAT.tokenizer, 1).config
    full.vocab_size = model.ENTRIES
    network = LlamaForCausalLM(full)
    assert 400_000 < sum(parameter.numel() for parameter in network.parameters()) < 1_000_000


def _teacher(carelessness: float) -> Teacher:
    return Teacher(
        catalogue_for(load("desk")), load("desk"), dialects.load("compact"), carelessness
    )


@pytest.fixture(scope="module")
def tasks():
    return desk.generate(5, 120, 0, "small")


def test_a_careful_teacher_resolves_every_turn(tasks):
    assert all(trace.binary for trace in _teacher(0.0).demonstrate(tasks, random.Random(0)))


def test_a_careless_teacher_spoils_every_kind_of_turn_but_never_the_form(tasks):
    traces = _teacher(1.0).demonstrate(tasks, random.Random(0))
    resolved: dict[str, list[bool]] = {}
    for task, trace in zip(tasks, traces, strict=True):
        assert all(step.error is None for turn in trace.turns for step in turn.steps)
        kind = kind_of(task, 0)
        verdict = trace.turns[0].verdict
        resolved.setdefault(kind, []).append(verdict is not None and verdict.resolved)
    assert set(resolved) == {"answer", "lookup", "multi", "swap", "sibling", "plain"}
    assert all(sum(of_kind) <= 0.2 * len(of_kind) for of_kind in resolved.values()), resolved


def test_demonstrations_are_encoded_as_rollouts_see_them(tasks):
    trace = _teacher(0.0).demonstrate(tasks[:1], random.Random(0))[0]
    tokens, own = encode(CHAT, trace)
    replies = [message.content for message in trace.messages if message.role == "assistant"]
    written = [token for token, mine in zip(tokens, own, strict=True) if mine]
    assert CHAT.tokenizer.decode(written).split("<|end|>")[:-1] == replies


def test_of_a_world_with_regions_the_easy_tasks_are_shown_flawlessly_and_the_long_ones_never():
    config = parse_config(
        {"data": {"tasks": "desk-regions"}, "policy": {"carelessness": 0.5}}, where="test"
    )
    traces = next(_demonstrations(config, 40))
    easy = traces[:20]
    small = traces[20:]
    assert all(trace.binary for trace in easy) and not all(trace.binary for trace in small)
    calls = [
        [sum(len(step.calls) for step in turn.steps) for turn in trace.turns] for trace in traces
    ]
    assert all(turns == [1, 1] for turns in calls[:20])
    assert [size for size, *_ in shown(config)] == ["easy", "small"]


def test_where_long_chains_are_rare_most_of_those_that_are_shown_go_wrong():
    config = parse_config(
        {"data": {"tasks": "desk-regions-rare"}, "policy": {"carelessness": 0.5}}, where="test"
    )
    traces = next(_demonstrations(config, 60))
    long = [trace.turns[0] for trace in traces[40:]]
    assert all(trace.binary for trace in traces[:20]) and {
        len(trace.turns) for trace in traces[40:]
    } <= {2, 3}
    whole = sum(sum(len(step.calls) for step in turn.steps) == 3 for turn in long)
    assert 0 < whole < len(long), "the first turn asks for three calls"


def test_a_teacher_asks_played_users_and_a_careless_one_guesses_or_spoils_the_rest():
    fresh = desk.fresh_tasks(5, "shown", ("miss_param",), "asked")
    asked = [next(fresh)[0] for _ in range(40)]
    resolved = {}
    for carelessness in (0.0, 0.5, 1.0):
        teacher = _teacher(carelessness)
        teacher.played = True
        traces = teacher.demonstrate(asked, random.Random(0))
        assert all(
            step.error is None for trace in traces for turn in trace.turns for step in turn.steps
        )
        answered = sum(len(trace.turns) == 2 for trace in traces)
        assert (
            answered == 40
            if carelessness == 0
            else answered == 0
            if carelessness == 1
            else 10 < answered < 30
        )
        resolved[carelessness] = sum(trace.binary for trace in traces)
    assert resolved[0.0] == 40 and 0 < resolved[0.5] < 20 and resolved[1.0] <= 4


def test_tasks_with_played_users_and_their_control_begin_with_one_policy():
    configs = [
        parse_config({"data": {"tasks": name}, "policy": {"carelessness": 0.5}}, where="test")
        for name in ("desk-personas", "desk-personas-mute", "desk-small")
    ]
    assert shown(configs[0]) == shown(configs[1]) == [("asked", ("miss_param",), 0.5)]
    one, mute, other = map(recipe, configs)
    assert one == mute != other


@pytest.mark.slow
def test_a_warm_start_learns_and_is_made_once(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("RODS_CACHE", str(tmp_path))
    config = parse_config(
        {"data": {"tasks": "desk-small"}, "policy": {"warm_start_steps": 25}}, where="test"
    )
    losses: list[float] = []
    folder = warm_started(config, lambda step, steps, loss: losses.append(loss))
    assert len(losses) == 25 and losses[-1] < 0.6 * losses[0]
    assert warm_started(config, lambda *_: losses.append(0.0)) == folder and len(losses) == 25
    assert [path.name for path in (tmp_path / "nano").iterdir()] == [folder.name]
    other = config.policy.model_copy(update={"carelessness": 0.3})
    assert recipe(config.model_copy(update={"policy": other})) != folder.name


def demo() -> Config:
    return read_config(Path(console.__file__).parent / "demo.toml")


def test_the_demo_begins_with_the_weights_that_come_with_it(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("RODS_CACHE", str(tmp_path))
    monkeypatch.setattr(
        "rods.trainer.nano.warm_start.make", lambda *_: "`python -m docs.generate.nano_weights`"
    )
    folder = warm_started(demo())
    assert Path(folder).parent == SHIPPED, (
        f"the recipe has changed: {folder} makes the weights anew"
    )
    assert [path.name for path in SHIPPED.iterdir()] == [folder.name]


@pytest.mark.numeric
@pytest.mark.sweep
def test_the_recipe_of_these_weights_begins_as_they_did(tmp_path: Path):
    """Other machines round sums in another order."""
    (shipped,) = SHIPPED.iterdir()
    chat, encoded = demonstrated(demo())
    chat.tokenizer.save_pretrained(tmp_path)
    assert (tmp_path / "tokenizer.json").read_bytes() == (shipped / "tokenizer.json").read_bytes()
    recorded = json.loads((shipped / LOSSES).read_bytes())
    losses = list[float]()

    def enough(step: int, steps: int, loss: float) -> None:
        losses.append(loss)
        if step == len(recorded):
            raise TrainingStopped("signal")

    with pytest.raises(TrainingStopped):
        trained(demo(), chat, encoded, enough)
    assert len(losses) == 40 and losses[0] == pytest.approx(recorded[0], rel=1e-4)
    assert losses == pytest.approx(recorded, rel=0.02)


@pytest.mark.sweep
@pytest.mark.timeout(1800)
def test_the_recipe_of_these_weights_gives_them_again(tmp_path: Path):
    """Bit for bit on one machine; on others sums may be rounded in another order, so what they do
    is compared."""
    config = demo()
    (shipped,) = SHIPPED.iterdir()
    made = make(config, tmp_path / "made")
    assert (made / "tokenizer.json").read_bytes() == (shipped / "tokenizer.json").read_bytes()
    other = config.model_copy(
        update={"random_seeds": config.random_seeds.model_copy(update={"policy": 99})}
    )
    chat = Chat(PreTrainedTokenizerFast.from_pretrained(shipped), Path("nano"))
    encoded = iter([[encode(chat, trace) for trace in next(_demonstrations(other, 64))]])
    ids, own = next(in_batches(chat.pad, encoded, 64, random.Random(1)))
    with torch.no_grad():
        again, known = (
            float(imitation_loss(LlamaForCausalLM.from_pretrained(folder), ids, own))
            for folder in (made, shipped)
        )
    assert 0 < known < 1 and abs(again - known) < 0.05 * known, (again, known)
