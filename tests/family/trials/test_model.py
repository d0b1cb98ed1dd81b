"""The table of the roles of models is joined from those of the extensions that are there."""

from __future__ import annotations

import pytest

from rods.extension import extensions
from rods.family.trials import model


@pytest.mark.needs("feedback", "simulation")
def test_an_extension_brings_its_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = model.roles()
    monkeypatch.setattr(
        model, "extensions", lambda: [extension for extension in extensions() if extension.name != "feedback"]
    )
    assert everything.keys() - model.roles().keys() == {"feedback", "feedback_judge"}
    assert {"planner", "simulated_tool"} <= model.roles().keys()
