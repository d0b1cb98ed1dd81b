"""What no text may repeat: keys that this process has read, and what addresses hold of users and
their passwords. Whoever was sent one may tell others, and writes it as it was sent: coded for an
address, in base 64 as a part of something longer, quoted in JSON, Python or HTML."""

import html
import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from urllib.parse import parse_qsl, unquote, urlsplit

SHORTEST_KEY = 6  # characters; a shorter key would be found, and starred out, in innocent words
MOST_DECODED = 1 << 18  # characters: a hostile text costs as much time as it is long
_KEYS = ("_KEY", "_TOKEN", "_PASSWORD", "_SECRET")  # ends of names of variables
_known: set[str] = set()
_of_addresses: set[str] = set()  # a password may be a word ("secret") that a model means otherwise


def remember(key: str) -> None:
    """No text that passes through `without_keys` has `key` from now on."""
    if len(key) >= SHORTEST_KEY:
        _known.add(key)


def remember_address(text: str) -> None:
    """The same for what the address `text` holds beside the place: a password, a user's name where
    it stands alone, values of a query. An address that cannot be read is one."""
    try:
        parts = urlsplit(text.strip())
    except ValueError:
        found = [text]
    else:
        user, colon, password = parts.netloc.rpartition("@")[0].partition(":")
        found = [value for _, value in parse_qsl(parts.query)] or [parts.query]
        found.append(password if colon else user)
    both = {*found, *map(unquote, found)}
    _of_addresses.update(value for value in both if len(value) >= SHORTEST_KEY)


def remember_environment(variables: Mapping[str, str] = os.environ) -> None:
    """The same for all addresses with a user that the process was started with, and what its
    variables call a key or the like: of trackers, hubs and proxies."""
    for name, value in variables.items():
        if "://" in value and "@" in value:
            remember_address(value)
        if name.endswith(_KEYS) and len(value) >= SHORTEST_KEY:
            _of_addresses.add(value)


def without_keys(text: str, *more: str, addresses: bool = True) -> str:
    """`text` with three stars in the place of each key that is known, and of `more`; unless not
    `addresses`, also of what those hold. Where one shows once the text is decoded, it stays
    decoded; more than `MOST_DECODED` characters are not."""
    keys = {*_known, *more, *(_of_addresses if addresses else ())} - {""}
    text = _starred(text, keys)
    decoded = text
    for decode in 2 * DECODED if keys and len(text) <= MOST_DECODED else ():
        decoded = decode(decoded)
        keys |= {again for key in keys if len(again := decode(key)) >= SHORTEST_KEY}
        starred = _starred(decoded, keys)
        if starred != decoded:
            text = decoded = starred
    return text


def _starred(text: str, keys: Iterable[str]) -> str:
    for key in sorted(keys, key=len, reverse=True):  # one may hold another
        for form in (key, *_in_base_64(key)):
            text = text.replace(form, "***")
    return text


def _unescaped(text: str) -> str:
    """What JSON and Python have put behind backslashes."""
    return re.sub(
        r"\\(?:(?:u00|x)([0-9a-fA-F]{2})|(.))",
        lambda match: chr(int(match[1], 16)) if match[1] else match[2],
        text,
    )


DECODED: tuple[Callable[[str], str], ...] = (_unescaped, unquote, html.unescape)


@lru_cache(256)
def _in_base_64(key: str) -> frozenset[str]:
    """The characters that stand for nothing but the key, wherever it begins in what is coded."""
    data = key.encode(errors="surrogatepass")
    forms = set[str]()
    for before in range(3):
        text = b64encode(bytes(before) + data + b"\0\0").decode()
        inner = text[-(-8 * before // 6) : 8 * (before + len(data)) // 6]
        forms |= {inner, inner.translate(str.maketrans("+/", "-_"))}
    return frozenset(forms)
