"""Measurements say what they claim, what it is compared with, and how to run them."""

import ast
from pathlib import Path

import pytest

from bench.__main__ import NOT_MEASUREMENTS

SCRIPTS = sorted(
    path for path in (Path(__file__).parent.parent / "bench").glob("*.py") if path.stem not in NOT_MEASUREMENTS
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_measurement_states_claim_anchor_and_command(script: Path) -> None:
    text = " ".join((ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or "").split())
    assert "Claim: " in text
    assert "Anchor: " in text or "Anchors: " in text or "Anchors, " in text
    assert f"Command: `python -m bench.{script.stem}" in text
