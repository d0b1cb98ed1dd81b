"""docs/configuration.md is written from rods/config/ and holds every key."""

from console.configuration import PAGE, page
from rods.config import Config


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m console.configuration`"


def test_every_section_and_key_is_on_it() -> None:
    text = page()
    for name, field in Config.model_fields.items():
        inner = getattr(field.annotation, "model_fields", None)
        assert (f"## `[{name}]`" if inner else f"| `{name}` |") in text
        for key in inner or ():
            assert f"| `{key}` |" in text or f"`[{name}.{key}]`" in text or f"`[[{name}.{key}]]`" in text


def test_every_key_says_what_it_means() -> None:
    bare = [line for line in page().splitlines() if line.startswith("| `") and line.rstrip().endswith("|  |")]
    assert not bare, "give these keys a comment in rods/config/"
