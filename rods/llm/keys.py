"""API keys: read from an environment variable or a file, sent in a header, and nowhere else.

A key has no text form: printing, formatting or pickling a `Key` shows three stars. What a server says (errors, answers)
is scrubbed of it before anything else sees it, since servers do repeat keys in their complaints.
"""

from __future__ import annotations

import os
from typing import NoReturn

import aiofiles

from rods.config import Endpoint
from rods.errors import UserError

SHORTEST = 6  # characters; a shorter key would be found, and starred out, in innocent words


class Key:
    """One endpoint's key, or none."""

    __slots__ = ("_value",)

    def __init__(self, value: str = "") -> None:
        self._value = value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "***" if self._value else "no key"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not written anywhere")

    def headers(self) -> dict[str, str]:
        """What authorises a request."""
        return {"Authorization": f"Bearer {self._value}"} if self._value else {}

    def scrub(self, text: str) -> str:
        """`text` without the key."""
        return text.replace(self._value, "***") if self._value and self._value in text else text


async def read_key(endpoint: Endpoint) -> Key:
    """The key that `endpoint` names. Raises UserError when it is not there. Waits for a file without blocking the event
    loop: it may lie on a network."""
    if endpoint.key_env:
        return _checked(os.environ.get(endpoint.key_env, ""), f"environment variable {endpoint.key_env}")
    if not endpoint.key_file:
        return Key()
    path = os.path.expanduser(endpoint.key_file)  # noqa: ASYNC240, PTH111 — asks no file system
    try:
        async with aiofiles.open(path, encoding="utf-8") as file:
            text = await file.read()
        return _checked(text, path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UserError(
            f"the API key cannot be read ({reason})", where=path, remedy="check operation.endpoints.key_file"
        ) from None


def _checked(text: str, where: str) -> Key:
    value = text.strip()
    if len(value) < SHORTEST or not value.isascii() or not value.isprintable() or " " in value:
        raise UserError(
            "holds no API key" if not value else "does not look like an API key (one word of printable ASCII)",
            where=where,
            remedy="set it, or remove key_env and key_file for an endpoint without a key",
        )
    return Key(value)
