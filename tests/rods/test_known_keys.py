"""What is known of keys and addresses stands in no text, however others write it."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable
from pathlib import Path
from string import ascii_letters, digits
from urllib.parse import quote

import pytest
import structlog
from hypothesis import given, strategies as st

from rods import known_keys, logs
from rods.config.operation import base_address
from rods.errors import InfrastructureError, UserError, plain, say
from rods.known_keys import remember_address, remember_environment, without_keys
from rods.llm.connections import Key


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_keys, "_known", set())
    monkeypatch.setattr(known_keys, "_of_addresses", set())


CODINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "address": quote,
    "address, all": lambda text: quote(text, safe=""),
    "address, each": lambda text: "".join(f"%{ord(c):02x}" for c in text),
    "twice": lambda text: quote(quote(text, safe="")),
    "lower": lambda text: "".join(
        c if c in ascii_letters + digits else f"%{ord(c):02x}" for c in text
    ),
    "base 64": lambda text: base64.b64encode(text.encode()).decode(),
    "base 64 of addresses": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "JSON": json.dumps,
    "JSON of PHP": lambda text: json.dumps(text).replace("/", "\\/"),
    "Python": repr,
    "HTML": html.escape,
}
words = st.text(ascii_letters + digits + "-_+/\"'\\<&@:=~", min_size=8, max_size=40).map(
    lambda text: f"K{text}K"
)


@given(
    words, st.sampled_from(sorted(CODINGS)), st.text(ascii_letters, max_size=9), st.integers(0, 9)
)
def test_no_form_of_a_key_is_left(key: str, coding: str, before: str, after: int) -> None:
    coded = CODINGS[coding](before + key + "x" * after)
    left = without_keys(f"it said {coded}!", key)
    assert "***" in left
    assert CODINGS[coding](key).strip("\"'=") not in left


@pytest.mark.parametrize(
    "address",
    [
        "http://me:{}@host:80/v1",
        "https://{}@host/v1",
        "https://host/v1?api_key={}",
        "https://host/v1?a=b&key={}",
        "https://host/v1?{}",
    ],
)
def test_what_an_address_holds_is_in_no_text_from_then_on(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "pa%2Fss-" + address.strip("htps:/").encode().hex()[:20]
    text = address.format(key)
    with pytest.raises(ValueError, match="address") as refused:
        base_address(text)
    logs.configure("rods", folder=tmp_path / "logs")
    said = f"cannot reach {text} ({key.replace('%2F', '/')})" + "x" * 9_000
    structlog.get_logger().warning(said, why=[said], more={said: said})
    try:
        raise RuntimeError(said)
    except RuntimeError:
        structlog.get_logger().exception("it broke")
    say(said)
    error = UserError(said, where=said, remedy=said)
    errors = [error, InfrastructureError(said)]
    kept = [str(refused.value), plain(said), *capsys.readouterr(), *map(str, errors)]
    kept += [error.what, error.where, (tmp_path / "logs/rods.jsonl").read_text()]
    for told in kept:
        assert key not in told and key.replace("%2F", "/") not in told


def test_addresses_of_the_environment_are_known() -> None:
    remember_environment({"TRACKER": "https://me:of-a-tracker@host", "PLAIN": "no-address-at-all"})
    assert without_keys("of-a-tracker, no-address-at-all") == "***, no-address-at-all"
    remember_environment({"TRACKER_API_KEY": "a-tracker-s", "HUB_TOKEN": "short", "KEYS": "no-key"})
    assert without_keys("a-tracker-s, short, no-key") == "***, short, no-key"
    remember_address("http://host/v1")
    remember_address("http://me:short@host")
    assert without_keys("http://host/v1, short") == "http://host/v1, short"


def test_what_a_person_is_told_is_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    say("why: " + "x" * 100_000 + " → the remedy")
    said = capsys.readouterr().out
    assert len(said) < 8_100 and said.endswith(" → the remedy\n")


def test_a_password_that_is_a_word_stays_a_word_in_what_models_say() -> None:
    remember_environment({"https_proxy": "http://me:secret@proxy:3128"})
    key = Key("sk-planted-5e1f0c77a9")
    assert key.heard("the secret plan of sk-planted-5e1f0c77a9", 99) == "the secret plan of ***"
    assert key.complaint("me:secret sent sk-planted-5e1f0c77a9") == "me:*** sent ***"
    assert str(UserError("no way past me:secret@proxy")) == "no way past me:***@proxy"
