"""The table of the roles of models is joined from those of the extensions that are there."""

from __future__ import annotations

import pytest

from rods.daemon.stand_ins import model as stand_in_model
from rods.extension import Door


@pytest.mark.needs("feedback")
def test_an_extension_brings_its_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = stand_in_model.roles()
    others = stand_in_model.STAND_INS.providers()
    del others["feedback"]
    monkeypatch.setattr(Door, "providers", lambda door: others)
    assert everything.keys() - stand_in_model.roles().keys() == {"feedback", "feedback_judge"}
    assert "planner" in stand_in_model.roles()
