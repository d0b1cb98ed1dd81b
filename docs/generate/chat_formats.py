"""Writes the tables of docs/chat-formats.md: `python -m docs.generate.chat_formats`. That of the
families comes from `rods.dialects.families`, that of the templates from what trainer/fit.py finds
with each that the installed TRL packages. A test compares the page with them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from bench.fixtures import chat_templates
from rods.calls import Call
from rods.dialects import Dialect, Message
from rods.dialects.families import families, family_of
from rods.dialects.native import Native
from rods.dialects.tags import Hermes
from rods.environments.base import Tool
from rods.environments.loading import Environments
from rods.trainer import fit
from rods.trainer.chat import Chat

PAGE = Path(__file__).resolve().parents[1] / "chat-formats.md"
_PART = re.compile(r"(?<=<!-- families -->\n).*?(?=<!-- end -->)", re.DOTALL)
_TEMPLATES = re.compile(r"(?<=<!-- templates -->\n).*?(?=<!-- end of templates -->)", re.DOTALL)
SIGNS = {"equal": "=", "kept": "kept", "refused": "refused"}
CALL = Call("ls", {"path": "a"})


def filled(page: str) -> str:
    """The page with its table as the families are now."""
    rows = "\n".join(_rows())
    return _PART.sub(lambda _: f"\n{rows}\n\n", page)


def with_templates(page: str) -> str:
    """The page with its table of templates as the installed packages make it."""
    tools = list(Environments().load("desk").tools().values())
    rows = "\n".join(_template_rows(tools))
    return _TEMPLATES.sub(lambda _: f"\n{rows}\n\n", page)


def found(name: str, tools: list[Tool]) -> tuple[str, list[fit.Part], int]:
    """What a packaged template is spoken in (empty: its form is not known), what it makes of a
    conversation, and the characters of a prompt with `tools`."""
    text = chat_templates.template(name)
    family = family_of(text)
    if family is None and "tools" in text:
        return "", [], 0
    dialect: Dialect = Native(family) if family else Hermes()
    marks = (*family.ends, *family.closes) if family else ()
    chat = Chat(chat_templates.tokenizer(text, *marks), Path(name), family)
    system = Message("system", dialect.system(tools), dialect.beside(tools))
    prompt = chat.opened([system, Message("user", "Begin.")])
    return (
        dialect.name if family is None else family.name,
        fit.parts(chat, dialect, tools),
        len(prompt),
    )


def _template_rows(tools: list[Tool]) -> Iterator[str]:
    yield (
        "| template | form | call, result | two of them | next turn | complaint | returned tool | "
        "characters |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for name in chat_templates.names():
        form, parts, size = found(name, tools)
        refused = [part.why for part in parts if part.verdict == "refused"]
        if refused or not form:
            why = refused[0].removesuffix(f" {tools[0].name}") if refused else "not known"
            yield f"| {name} | {form or 'none'} | refused: {why} | | | | | |"
            continue
        signs = " | ".join(SIGNS[part.verdict] for part in parts[1:])
        yield f"| {name} | {form} | {signs} | {size:,} |"


def _rows() -> Iterator[str]:
    yield '| family | models | a call of `ls(path="a")` | ends | vLLM: calls, thinking |'
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
    text = with_templates(filled(PAGE.read_text(encoding="utf-8")))
    PAGE.write_text(text, encoding="utf-8")
