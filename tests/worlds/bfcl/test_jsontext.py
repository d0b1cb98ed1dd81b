"""Kept values carry their JSON text, which is written when it is first asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rods.worlds.bfcl.jsontext import keep, write_padded


@pytest.mark.parametrize("value", [{"a": [1, 2.5, None]}, ["é", {}], 'a "word"'])
def test_a_kept_value_is_written_as_json_when_it_is_first_asked_for(value: Any) -> None:
    kept = keep(value)
    assert kept == value and "json" not in vars(kept)
    assert kept.json == json.dumps(value) and "json" in vars(kept)
    padded = {"kept": kept, "more": 1}
    assert write_padded(padded) == json.dumps({"kept": value, "more": 1})
