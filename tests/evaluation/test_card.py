"""What a score depends on, in hashes: each of them moves with what it is of, and with nothing
else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rods import dialects
from rods.dialects import Message
from rods.episode.drivers import Job
from rods.episode.goals import SharedGroundTruth
from rods.evaluation.card import Card, card, different, lines, shown, template_of
from rods.tasks import Task
from rods.trainer.nano import model
from rods.worlds import desk
from tests.environments import Late, load

TASKS = Late(lambda: desk.generate(5, 4, 6))
HELD_OUT = Late(lambda: [task for task in TASKS if task.split != "train"])


def jobs(tasks: Sequence[Task], name: Any = "tags", prompt: Any = "plain") -> list[Job]:
    environment = load("desk")
    dialect = dialects.load(name, prompt)
    return [Job(task, environment, dialect, SharedGroundTruth(environment, task)) for task in tasks]


def made(
    tasks: Sequence[Task] = HELD_OUT, name: Any = "tags", prompt: Any = "plain", **more: Any
) -> Card:
    settings = {
        "history": "tokens",
        "template": "t",
        "random_seeds": {"rollouts": 1},
        "sampling": {"temperature": 1.0},
    }
    return card(
        tasks, "held-out", list(map(shown, jobs(tasks, name, prompt))), **{**settings, **more}
    )


def test_each_hash_moves_with_what_it_is_of_and_with_nothing_else() -> None:
    ours = made()
    assert (
        ours == made(list(HELD_OUT)) and different(ours, ours) == [] and different(ours, None) == []
    )
    assert ours["data"] == [f"desk {load('desk').hash}"]
    assert (ours["split"]["name"], ours["split"]["tasks"]) == ("held-out", len(HELD_OUT))
    for other, fields in (
        (made(prompt="resourceful"), ["prompts"]),
        (made(name="hermes"), ["prompts"]),
        (made(HELD_OUT[1:]), ["split", "prompts"]),
        (made(template="u"), ["template"]),
        (made(history="messages"), ["history"]),
        (made(random_seeds={"rollouts": 2}), ["random_seeds"]),
        (made(sampling={"temperature": 0.5}), ["sampling"]),
    ):
        assert different(ours, other) == fields


def test_prompts_hash_what_answers_malformed_text_and_how_results_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = made()["prompts"]
    others = {
        "complaint": lambda self, *_: ("user", "something else"),
        "observation": lambda self, *_: [Message("user", "something else")],
    }
    for name, other in others.items():
        with monkeypatch.context() as patched:
            patched.setattr(f"rods.dialects.tags.Tags.{name}", other)
            assert made()["prompts"] != ours


def test_a_chat_template_is_known_from_either_file_that_may_hold_it(tmp_path: Path) -> None:
    assert template_of(tmp_path) is None
    words = model.build_tokenizer(
        " ".join((*task.script, *task.tools)) for task in desk.generate(5, 60, 0)
    )
    words.save_pretrained(tmp_path)
    nano = template_of(tmp_path)
    assert nano is not None
    (tmp_path / "chat_template.jinja").unlink(missing_ok=True)
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    inside = template_of(tmp_path)
    assert inside is not None and inside != nano
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    assert template_of(tmp_path) == inside


def test_a_card_is_said_in_a_few_lines() -> None:
    text = "\n".join(lines(made(), 6))
    for part in (
        "data desk",
        "split held-out, 6 tasks",
        "prompts ",
        "chat template t",
        "nothing earlier is rendered",
    ):
        assert part in text
    assert "rollouts 1, temperature 1.0" in text and "6 of them (6 tasks: too few" in text
    assert "too few" not in "\n".join(lines(made(), 40))
    assert "none is on record" in "\n".join(lines(None, 40))
