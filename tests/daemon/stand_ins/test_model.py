"""The table of the roles of models is joined from the modules that are there."""

from __future__ import annotations

import pytest

from rods.daemon.stand_ins import model
from rods.extension import extensions


def test_a_part_that_is_not_there_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = model.roles()
    monkeypatch.setattr(model, "PARTS", ("rods.daemon.stand_ins.gone",))
    left = model.roles()
    assert "planner" in everything.keys() - left.keys() and "simulated_tool" in left


def test_an_extension_brings_its_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = model.roles()
    monkeypatch.setattr(
        model, "extensions", lambda: [extension for extension in extensions() if extension.name != "feedback"]
    )
    assert everything.keys() - model.roles().keys() == {"feedback", "feedback_judge"}
