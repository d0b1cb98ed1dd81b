"""The table of docs/chat-formats.md is what the families say."""

import re

import pytest

from docs.generate import chat_formats


def test_the_table_of_chat_formats_is_up_to_date() -> None:
    page = chat_formats.PAGE.read_text(encoding="utf-8")
    assert page == chat_formats.filled(page), "run `python -m docs.generate.chat_formats`"


@pytest.mark.slow
def test_the_table_of_templates_is_what_the_installed_packages_make() -> None:
    page = chat_formats.PAGE.read_text(encoding="utf-8")
    assert page == chat_formats.with_templates(page), "run `python -m docs.generate.chat_formats`"


def test_nearly_all_packaged_templates_are_trained_in_their_own_form_or_hermes() -> None:
    page = chat_formats.PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| [\w]+ \| ([^|]+) \|(.+)\|$", page.split("<!-- templates -->")[1], re.M)
    forms = [form for form, _ in rows]
    assert len(rows) == 72 and "refused" not in "".join(rest for _, rest in rows)
    assert sum(form.startswith("not known") for form in forms) <= 2
    assert sum(form != "hermes" for form in forms) >= 48
