"""Values of ground truths, and texts that give one of them away in disguise."""

from __future__ import annotations

import base64
import codecs
from dataclasses import replace

from rods.calls import Call
from rods.tasks import Task
from worlds import desk

VALUES = ("SFO", "2024-05-04", "1250", "final_report.pdf", "San Francisco", "more details", "paul", "e13", "Zenith")

LEAKS: dict[str, str] = {
    "as it is": "use SFO there",
    "in small letters": "use sfo there",
    "letter by letter": "use S F O there",
    "small letters apart": "use s f o there",
    "with dots": "use S.F.O there",
    "with hyphens": "use S-F-O there",
    "with underscores": "use S_F_O there",
    "in quotes": "use 'S' 'F' 'O' there",
    "spelled by alphabet": "use Sierra Foxtrot Oscar there",
    "backwards": f"use {'SFO'[::-1]} backwards",
    "rotated": f"use {codecs.encode('SFO', 'rot13')} there",
    "base64": f"use {base64.b64encode(b'SFO').decode()} there",
    "hexadecimal": f"use {b'SFO'.hex()} there",
    "percent signs": "use %53%46%4F there",
    "entities": "use &#83;&#70;&#79; there",
    "full width": "use ＳＦＯ there",
    "letters of another script": "use ЅFО there",
    "joined by nothing": "use S\u200bF\u200bO there",
    "digits for letters": "use 5F0 there",
    "a city": "use the code of San Francisco",
    "half a city": "use the code of Francisco",
    "a date": "use 2024-05-04 there",
    "a date in words": "use May 4th, 2024 there",
    "a date without its year": "use the fourth of May",
    "a short date": "use 04/05/24 there",
    "a date in one number": "use 20240504 there",
    "a number": "use 1250 there",
    "a number with a comma": "use 1,250 there",
    "a number with a unit": "use 1.25k there",
    "a number with an exponent": "use 1.25e3 there",
    "a number in words": "use twelve hundred and fifty there",
    "a number in Roman letters": "use MCCL there",
    "a number in base sixteen": "use 0x4E2 there",
    "a number as a product": "use fifty times twenty-five there",
    "a number in another language": "use mille deux cent cinquante there",
    "a file in words": "use final report there",
    "a file in humps": "use finalReport there",
    "a file with hyphens": "use final-report dot pdf there",
    "plain words": "more details",
    "initials": "put all under lists",
    "initials backwards": "look under any part",
    "odd capitals": "use Search First Of there, reAd the capitals sFo",
    "a name": "it is about Zenith",
    "a call": "use find_event(title=launch) there",
    "an assignment": "use event=e13 there",
    "a list": "use [e13] there",
}


def leaky_tasks() -> list[Task]:
    """A training and a held-out task whose ground truth holds the values."""
    made = []
    for task, values in zip(desk.generate(7, 1, 1), (VALUES[::2], VALUES[1::2]), strict=True):
        calls = tuple(Call("find_event", {"title": value}) for value in values)
        made.append(replace(task, script=("x",), calls=(calls,), tools=("find_event",), held_out={}, id=""))
    return made
