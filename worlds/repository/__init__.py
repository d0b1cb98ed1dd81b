"""The tool repository that comes with the project: one JSON file a category, documents only (001 §2.2.1)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from rods.simulation.tools import ToolRepository, read_folder

FOLDER = Path(__file__).parent


@cache
def shipped() -> ToolRepository:
    return read_folder(FOLDER)
