"""Writes the table of docs/chat-formats.md from the tables of `rods.dialects.families`: `python -m
docs.generate.chat_formats`. A test compares the page with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rods.calls import Call
from rods.dialects.families import families
from rods.dialects.native import Native

PAGE = Path(__file__).resolve().parents[1] / "chat-formats.md"
_PART = re.compile(r"(?<=<!-- families -->\n).*?(?=<!-- end -->)", re.DOTALL)
CALL = Call("ls", {"path": "a"})


def filled(page: str) -> str:
    """The page with its table as the families are now."""
    rows = "\n".join(_rows())
    return _PART.sub(lambda _: f"\n{rows}\n\n", page)


def _rows() -> Iterator[str]:
    yield '| family | models | a call of `ls(path="a", all=True)` | ends | vLLM: calls, thinking |'
    yield "|---|---|---|---|---|"
    for family in families().values():
        ends = " ".join(
            f"{_code(end)}{'†' if end in family.openers else ''}" for end in family.ends
        )
        server = ", ".join(filter(None, (family.server, family.reasoning_server))) or "none"
        written = _code(Native(family).write([CALL]))
        yield f"| {family.name} | {family.title} | {written} | {ends} | {server} |"
    yield ""
    for family in families().values():
        if family.loses:
            yield f"- {family.title}: {'; '.join(family.loses)}."


def _code(text: str) -> str:
    shown = text.strip().replace("\n", "⏎").replace("|", "\\|")
    return f"``{shown}``" if "`" not in shown else f"```` {shown} ````"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
