"""What was said and done, as questions to models show it: one JSON object a line. Every prompt
writes messages, calls and results by `line`, so no text of theirs ends its line, stands for
another's or takes the room of all others."""

import json
from collections.abc import Sequence
from typing import Any

from rods.canonical import JsonMapping

ROOM = 48_000  # characters of a transcript
LONGEST = 4_000  # characters of one text, or of one call's arguments as JSON
LEAST = 125  # the same where there is little room; what is old goes only then
# line breaks that JSON leaves as they are
BREAKS = {code: f"\\u{code:04x}" for code in (0x7F, 0x85, 0x2028, 0x2029)}


def transcript(records: Sequence[JsonMapping], room: int = ROOM) -> str:
    """`records` in about `room` characters: the longest of their values lose their middles first,
    then the oldest records are left out, those of a `user` last. Whatever is cut or left out says
    so."""
    longest = LONGEST
    lines = [line(record, longest) for record in records]
    while sum(map(len, lines)) > room and longest > LEAST:
        longest //= 2
        lines = [line(record, longest) for record in records]
    kept = list[int]()
    left = room
    for place in sorted(
        range(len(lines)), key=lambda place: ("user" not in records[place], -place)
    ):
        if (left := left - len(lines[place])) < 0 and kept:
            break
        kept.append(place)
    gone = [line({"left_out": len(lines) - len(kept)})] if len(kept) < len(lines) else []
    return "\n".join([*gone, *(lines[place] for place in sorted(kept))])


def line(record: JsonMapping, longest: int | None = None) -> str:
    """`record` as one line, by whatever counts as the end of one."""
    cut = (
        record
        if longest is None
        else {name: _within(value, longest) for name, value in record.items()}
    )
    return json.dumps(cut, ensure_ascii=False, separators=(",", ":")).translate(BREAKS)


def one_line(text: str) -> str:
    """`text` with a space in the place of all that may end a line."""
    return " ".join(text.split())


def _within(value: Any, longest: int) -> Any:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= longest:
        return value
    half = longest // 2
    return {"begins": text[:half], "left_out": len(text) - 2 * half, "ends": text[-half:]}
