"""What a state must look like: {"classes": […], "config": {…}, "long_context": bool}, in snapshots also "objects"."""

from __future__ import annotations

from typing import Any

from worlds.bfcl.classes import MODULES


def check_state(state: Any) -> None:
    """Raises ValueError naming what is wrong; what is inside a class's scenario is for the class itself to refuse."""
    if not isinstance(state, dict) or not {"classes", "config"} <= state.keys():
        raise ValueError("the state needs 'classes' and 'config'")
    if unknown := state.keys() - {"classes", "config", "long_context", "objects"}:
        raise ValueError(f"unknown fields {sorted(unknown)} in the state")
    classes, config = state["classes"], state["config"]
    if not isinstance(classes, list) or not all(isinstance(name, str) and name in MODULES for name in classes):
        raise ValueError(f"'classes' must be a list of {', '.join(MODULES)}; it is {classes!r}")
    if len(set(classes)) != len(classes):
        raise ValueError("'classes' names a class twice")
    if not isinstance(config, dict) or not all(isinstance(scenario, dict) for scenario in config.values()):
        raise ValueError("'config' must hold one object for each class")
    objects = state.get("objects", {})
    if not isinstance(objects, dict) or not objects.keys() <= set(classes):
        raise ValueError("'objects' must hold objects of the state's classes")
    if not isinstance(state.get("long_context", False), bool):
        raise ValueError("'long_context' must be true or false")
