"""The table of the roles of models is joined from those of the extensions that are there."""

from __future__ import annotations

import pytest

from rods.daemon.stand_ins import model as stand_in_model
from rods.extension import extensions


@pytest.mark.needs("feedback", "simulation")
def test_an_extension_brings_its_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = stand_in_model.roles()
    monkeypatch.setattr(
        stand_in_model,
        "extensions",
        lambda: [extension for extension in extensions() if extension.name != "feedback"],
    )
    assert everything.keys() - stand_in_model.roles().keys() == {"feedback", "feedback_judge"}
    assert {"planner", "simulated_tool"} <= stand_in_model.roles().keys()
