"""A policy's folder with a tokenizer whose tokens are words, so that a test can count them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def write_word_tokenizer(folder: Path) -> Path:
    """Writes `tokenizer.json` into a new `folder`."""
    tokenizers: Any = pytest.importorskip("tokenizers")
    folder.mkdir()
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    words.save(str(folder / "tokenizer.json"))
    return folder
