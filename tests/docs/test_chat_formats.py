"""The table of docs/chat-formats.md is what the families say."""

from docs.generate import chat_formats


def test_the_table_of_chat_formats_is_up_to_date() -> None:
    page = chat_formats.PAGE.read_text(encoding="utf-8")
    assert page == chat_formats.filled(page), "run `python -m docs.generate.chat_formats`"
