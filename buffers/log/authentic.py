"""Records that only who holds a key can write (docs/durability.md#a-key): each carries a code
(HMAC-SHA256, 128 bits) over its bytes, its seq among them, under a key that is derived for its log
and its run.

Codes are not chained. A record says its seq, so that none can be moved, doubled or left out between
others, and one that is lost to damage takes away nobody else's proof.
"""

import hmac
import os
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from rods.buffers.log.parts import segments
from rods.buffers.log.record_bytes import TRAILER, read_line
from rods.errors import UserError
from rods.files import DOCUMENT, open_regular, read_regular

VARIABLE = "RODS_LOG_KEY"  # names the file that holds the key
# rods.buffers.run.runfolder; what lies below this room does not import it
MANIFEST = "manifest.json"
SHORTEST = 32  # bytes
CODE = b',"mac":"%b"'
WIDTH = len(CODE % bytes(32))
Authenticate = Callable[[bytes], bytes]  # the field with the code of a record's bytes


def authenticating(log: Path) -> Authenticate | None:
    """What gives the codes of the records of `log`, the name of its live part (with a star where
    epochs have parts of their own); None where there is no key, and outside of run folders. Raises
    UserError for a key that is none."""
    if not (file := os.environ.get(VARIABLE, "")):
        return None
    try:
        manifest = read_regular(log.with_name(MANIFEST), DOCUMENT)
    except FileNotFoundError:
        return None
    own = hmac.digest(_key(Path(file)), log.name.encode() + b"\n" + manifest, "sha256")
    # a copy costs half of what a new one does
    return partial(_code, hmac.new(own, digestmod="sha256"))


def forged(log: Path, authenticate: Authenticate) -> Iterator[tuple[Path, int]]:
    """Part and offset of each line of `log` that no holder of the key has written; a line cut short
    at its end is none yet."""
    for part in segments(log):
        offset = 0
        with open_regular(part) as file:
            while (text := read_line(file, part)).endswith(b"\n"):
                body = text[: -TRAILER - 1]
                if not hmac.compare_digest(body[-WIDTH:], authenticate(body[:-WIDTH])):
                    yield part, offset
                offset += len(text)


def _code(empty: hmac.HMAC, body: bytes) -> bytes:
    code = empty.copy()
    code.update(body)
    return CODE % code.hexdigest()[:32].encode()


def _key(file: Path) -> bytes:
    remedy = f"make one with `openssl rand -hex 32`, give it mode 600, and name it in {VARIABLE}"
    try:
        key = read_regular(file, DOCUMENT).strip()
        mode = file.stat().st_mode
    except OSError as error:
        raise UserError(
            f"the key cannot be read ({error.strerror})", where=str(file), remedy=remedy
        ) from error
    if len(key) < SHORTEST:
        raise UserError(f"a key of {len(key)} bytes is too short", where=str(file), remedy=remedy)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UserError("the key is open to others", where=str(file), remedy=remedy)
    return key
