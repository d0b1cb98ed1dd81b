"""The table of docs/chat-formats.md is what the families say."""

import re
from pathlib import Path

import pytest

from bench.fixtures import chat_templates
from docs.generate import chat_formats
from rods.dialects.tags import Hermes
from rods.trainer import fit
from rods.trainer.chat import Chat
from tests.environments import load


def test_the_table_of_chat_formats_is_up_to_date() -> None:
    page = chat_formats.PAGE.read_text(encoding="utf-8")
    assert page == chat_formats.filled(page), "run `python -m docs.generate.chat_formats`"


@pytest.mark.slow
def test_the_table_of_templates_is_what_the_installed_packages_make() -> None:
    page = chat_formats.PAGE.read_text(encoding="utf-8")
    assert page == chat_formats.with_templates(page), "run `python -m docs.generate.chat_formats`"


def test_nearly_all_packaged_templates_are_trained_in_their_own_form_or_hermes() -> None:
    page = chat_formats.PAGE.read_text(encoding="utf-8")
    (table,) = re.findall("<!-- templates -->(.*)<!-- end of templates -->", page, re.S)
    rows = re.findall(r"^\| (\w+) \| (\w+) \| ([^|]+) \|", table, re.M)
    assert {name for name, *_ in rows} == {*chat_templates.names(), "template"}
    refused = {name: verdict for name, _, verdict in rows if verdict.startswith("refused")}
    assert len(refused) <= 6 and len(rows) - 1 - len(refused) >= 60
    assert sum(form not in ("hermes", "none", "form") for _, form, _ in rows) >= 48


def test_what_is_refused_is_trained_in_hermes() -> None:
    """The remedy that the refusal names works."""
    page = chat_formats.PAGE.read_text(encoding="utf-8")
    tools = list(load("desk").tools().values())[:4]
    for name in re.findall(r"^\| (\w+) \| \w+ \| refused: ", page, re.M):
        text = chat_templates.template(name)
        chat = Chat(chat_templates.tokenizer(text), Path(name))
        assert {part.verdict for part in fit.parts(chat, Hermes(), tools)} <= {"equal", "kept"}
