"""Families of chat formats, a table each."""

from rods.canonical import frozen

THINKING = ("<think>", "</think>")


@frozen
class Family:
    """How the models of a family write calls."""

    name: str
    thinking: tuple[str, str] | None = THINKING
    ends: tuple[str, ...] = ()
    openers: tuple[str, ...] = ()
    closes: tuple[str, ...] = ()
