"""Everything that reads a model's text, over hostile texts that grow by tens up to a million
characters.

Claim: the time of each reader grows with the length of its text, and no faster: from one size to
the next, ten times as long, at most fifteen times the time. Anchor: the length. Each reader meets
every kind of text: openers without an end, pairs, brackets, quotes, backslashes, digits, signs,
words, letters that UTF-8 writes with several bytes and halves of surrogate pairs; once as it is,
once behind what makes the reader look further. Beyond a limit of its own a reader refuses what it
is given, which then costs nothing more: the largest ratio of any two sizes counts, but for a step
that does not go on (`goes_on`), as where a text no longer fits a cache. CPU time, the best of
three; what takes under 2 ms is not compared. Python's garbage collector is off: it looks at what is
made again as more is made, which adds up to half where a text becomes hundreds of thousands of
lists. Command: `python -m bench.parsers` (`--only NAME` for one reader).
"""

from __future__ import annotations

import ctypes
import gc
import json
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Literal

from bench.figures import Figure, run
from rods import model_json
from rods.analysis.containment import Text, spelled, stem, stems, things
from rods.asking import AnswerForm
from rods.calls import Call, parse_python_call
from rods.composing.catalogue import catalogue_for
from rods.composing.parse_wording import read
from rods.dialects import Message, load
from rods.dialects.families import families
from rods.dialects.native import Native
from rods.environments.base import Result
from rods.environments.loading import Environments
from rods.episode.diagnosis import diagnose
from rods.episode.engine import StepTrace, Trace, TurnTrace, Verdict
from rods.family.feedback.failures import pattern, shape
from rods.family.feedback.gates import GroundTruthValues, feedback_faults
from rods.family.feedback.hints import hint
from rods.gates.ground_truth import run as played
from rods.gates.texts import leaks, unnatural
from rods.interfaces import Shown
from rods.llm import wire
from rods.llm.records import Completion
from rods.tasks import Task
from rods.worlds.desk.generator import generate

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
QUICK = SIZES[:-1]
# of the times of two sizes, and the seconds from which on they are compared
REACH = 15.0
LEAST = 0.002
# M_TRIM_THRESHOLD and M_MMAP_THRESHOLD: no page is asked for anew in a second reading
KEEP_MEMORY = -1, -3
TOO_LONG = 3.0  # seconds of one reading after which no longer text of its kind is read
# a word of one or two letters has no stem to look for, which the shortest texts alone would consist
# of
FIRST = 1_000
CALL = '<tool_call>{"name": "a", "arguments": {}}</tool_call>'
PIECES = (
    *(
        "<tool_call>",
        "</tool_call>",
        "<tool_call></tool_call>",
        CALL,
        "<think>",
        "</think>",
        "<think></think>",
    ),
    *(
        "</think><think>",
        "<answer>",
        "</answer>",
        "<reason>",
        "</reason>",
        "<plan>",
        "</plan>",
        "<plan>1</plan>",
        "<w",
    ),
    *(
        "{",
        "}",
        "[",
        "]",
        "[]",
        "[],",
        "{}",
        '{"a":',
        '{"a":1},',
        '["',
        "(",
        ")",
        "a(",
        "a(b=",
        "a=1, ",
        "```",
        "```json",
    ),
    *(
        '"',
        "'",
        '"a"',
        "'a' ",
        "'a",
        '"\\',
        "\\",
        "\\\\",
        '\\"',
        "\\u0022",
        "\\ud800",
        "”",
        "“",
        "“a",
    ),
    *(
        "9",
        "9 ",
        "9,",
        "1,000",
        ",000",
        "1.",
        ".1",
        "-",
        "- 1",
        "1-",
        "9999-",
        "e9",
        "#",
        "@",
        "@a",
        "a1",
        "A",
        "a/",
        "a.",
    ),
    *(
        " ",
        "\n",
        "\n\n",
        "\t",
        "a",
        "a ",
        "A ",
        "_",
        "a_",
        "a_b ",
        "é",
        "é ",
        "字",
        "\ud800",
        "\udc00\ud83d",
        "😀",
        "\0",
    ),
    *(
        "! a\n",
        "! a b= 1\n",
        "b= ",
        "b= 1 ",
        "=",
        "$",
        "the the ",
        "the ",
        "one ",
        "twenty ",
        "hundred and ",
        "use ",
        "use  the ",
    ),
    *(
        "order_id ",
        "step ",
        "step 1",
        "thought ",
        "such as ",
        "(",
        "e.g. ",
        ". ",
        ".",
        ",",
        ";",
        "first ",
        "x:",
        "|",
        "options: ",
    ),
    *('"#n":1,', '{"#n":', "a#n ", "b#n= 1 ", "#n ", "'#n' ", "a#n=1,"),
    *(
        "no such ",
        "invalid ",
        "send_mail ",
        "mail ",
        "check ",
        "and ",
        "data: x\n\n",
        "&amp;",
        "<",
        ">",
        "<a>",
    ),
)
FORM = AnswerForm(
    {"plan": {"type": "array", "items": {"type": "integer"}}, "text": {"type": "string"}}
)
SENT = Completion("", "other", "m", "b")
Reader = Callable[[str], object]


def measure(quick: bool, only: str = "") -> list[Figure]:
    """For each reader, the largest ratio of the times of two texts of a kind, one ten times as long
    as the other."""
    for what in KEEP_MEMORY:
        ctypes.CDLL(None).mallopt(what, (1 << 31) - 1)
    gc.disable()
    figures = []
    sizes = QUICK if quick else SIZES
    for name, (read_text, around) in readers().items():
        if only and name != only:
            continue
        gc.collect()
        worst = 0.0
        kind = ""
        each = dict.fromkeys(sizes, 0.0)
        steps = 0
        for before, piece in ((before, piece) for before in around for piece in PIECES):
            last = 0.0
            for size in sizes:
                text = before + repeated(piece, size - len(before))
                taken = seconds(partial(read_text, text))
                each[size] = max(each[size], taken / size)
                ratio = taken / max(last, LEAST / 10) if taken >= LEAST and last else 0.0
                if ratio > REACH and not goes_on(read_text, before, piece, size):
                    steps += 1
                elif ratio > worst:
                    worst = ratio
                    kind = f"{before[:20]!r} and {piece!r} at {size:,}"
                if taken > TOO_LONG:
                    break
                last = taken
        rates = ", ".join(f"{size:,}: {1e9 * rate:,.0f}" for size, rate in each.items() if rate)
        print(
            f"  {name}: ns a character at worst, {rates}; {kind}; {steps} steps left out",
            flush=True,
        )
        figures.append(
            Figure(
                f"{name}: ten times the text", worst, "times", "the length", 10, REACH, higher=False
            )
        )
    return figures


def goes_on(read_text: Reader, before: str, piece: str, size: int) -> bool:
    """Whether of the texts up to `size` each that is twice as long takes more than its share longer
    too. What reaches beyond a cache, or is measured beside another process, takes longer once, and
    twice as long again from there on."""
    quarter, half, whole = (
        min(
            seconds(partial(read_text, before + repeated(piece, part - len(before))))
            for _ in range(2)
        )
        for part in (size // 4, size // 2, size)
    )
    share: float = REACH ** math.log10(2)
    return half > share * quarter and whole > share * half


def readers() -> dict[str, tuple[Reader, tuple[str, ...]]]:
    """Each reader of a model's text, and what may stand before what is repeated."""
    return {
        **{f"dialect {name}": (load(name).parse, around) for name, around in DIALECTS.items()},
        **_native(),
        "calls in Python": (
            _refusing(partial(parse_python_call, parameters={})),
            ("", "a(b=", "a(b='", "a(b=["),
        ),
        "JSON of a call": (_refusing(model_json.read_exact), ("", "[", '["', '{"a": "', '{"1":1,')),
        "JSON of an answer": (
            _refusing(model_json.find),
            ("", "so [", 'so {"a": "', 'so {"1":1,', "```json\n"),
        ),
        "answers in an object": (
            _refusing(partial(FORM.read, constrained=True)),
            ("", "x", '{"reason": "'),
        ),
        "answers in tags": (
            _refusing(partial(FORM.read, constrained=False)),
            ("", "x", "<text>", "<plan>["),
        ),
        "bodies of replies": (_refusing(_decoded), ("", "x", "<think>")),
        "bodies that are no reply": (_refusing(_undecoded), ("", "{", '{"choices": [')),
        "what a text says": (_said, ("", "a '")),
        **_gates(),
        **_feedback(),
        "diagnosis": (_diagnosis(), ("", "id")),
    }


DIALECTS: dict[Literal["tags", "hermes", "compact"], tuple[str, ...]] = {
    "tags": (
        "",
        "<think>",
        "<tool_call>",
        "<answer>",
        "<think>a</think>",
        "<tool_call>[",
        '<tool_call>["',
    ),
    "hermes": (
        "",
        "<think>",
        "<tool_call>",
        "a</think>",
        f"{CALL}\n",
        "<tool_call>[",
        '<tool_call>{"a": "',
    ),
    "compact": ("", "! a ", "! a b= ", '! a b= "', "! a b= ["),
}


def _native() -> dict[str, tuple[Reader, tuple[str, ...]]]:
    """A family of each grammar, behind nothing, thinking, a call's opening, and half a call."""
    by_grammar = {family.grammar: family for family in reversed([*families().values()])}
    found: dict[str, tuple[Reader, tuple[str, ...]]] = {}
    for family in by_grammar.values():
        dialect = Native(family)
        written = dialect.write([Call("ls", {"path": "a"})])
        think = family.think[0] if family.think else ""
        around = ("", think, family.open, written[: written.index("a", len(written) // 2)])
        found[f"family {family.name}"] = (dialect.parse, tuple(dict.fromkeys(around)))
    return found


def _refusing(reader: Reader) -> Reader:
    def tried(text: str) -> None:
        with suppress(ValueError):
            reader(text)

    return tried


def _decoded(text: str) -> None:
    message = {
        "role": "assistant",
        "content": text,
        "tool_calls": [{"function": {"name": text, "arguments": text}}],
    }
    wire.decode(json.dumps({"choices": [{"message": message}], "model": text}).encode(), SENT, 0.0)


def _undecoded(text: str) -> None:
    body = text.encode(errors="surrogatepass")
    wire.complaint(body), wire.no_room(body)
    wire.decode(body, SENT, 0.0)


def _said(text: str) -> None:
    Text.of(text).contains_any_form("a b"), Text.shown(text).contains_any_form(9)
    things(text), list(spelled(text)), list(stems(text))


def _gates() -> dict[str, tuple[Reader, tuple[str, ...]]]:
    world = Environments().load("desk")
    book = catalogue_for(world)
    tasks = [task for task in generate(3, 40, 1) if task.type == "base"]
    task = max(tasks, key=lambda task: len(task.calls[0]))
    results = played(world, task)

    def said(text: str) -> Task:
        return replace(task, id="", script=(text, *task.script[1:]))

    return {
        "leaks": (_refusing(lambda text: leaks(world, said(text))), ("", "use ")),
        "style": (lambda text: unnatural(text, 40), ("",)),
        "the phrase book": (
            _refusing(lambda text: read(book, world, said(text), results)),
            ("", task.script[0]),
        ),
    }


def _feedback() -> dict[str, tuple[Reader, tuple[str, ...]]]:
    world = Environments().load("desk")
    tools = world.tools()
    truth = GroundTruthValues(generate(3, 40, 1))
    tool = tools["send_mail"]
    other = tools["search_mail"]

    def failed(text: str) -> None:
        call = Call("send_mail", {"to": text, "text": text[:20]})
        pattern(call, Result(text, None, "tool")), shape(text)
        hint(Shown(world, tools), call, Result(text, None, "tool"))
        hint(Shown(world, tools), Call(text, {text: text}), Result(text, None, "unknown_tool"))
        hint(
            Shown(world, tools),
            Call("send_mail", {text: text}),
            Result(text, None, "unknown_argument"),
        )

    return {
        "feedback: its gates": (
            lambda text: feedback_faults(world, tool, other, "no such mail", text, truth),
            ("",),
        ),
        "feedback: failures and hints": (failed, ("", "no such ", "'")),
    }


def _diagnosis() -> Reader:
    """Labels of a turn whose replies, arguments and results hold the text."""
    world = Environments().load("desk")
    task = next(task for task in generate(3, 40, 1) if task.type == "base")

    def labelled(text: str) -> None:
        known = task.calls[0][0]
        call = Call(known.name, dict.fromkeys(known.arguments, text))
        result = Result(text, None, None)
        refused = Result(text, None, "tool")
        steps = (
            StepTrace(text, error="malformed"),
            StepTrace(text, (call, call), (refused, result)),
        )
        told = (
            Message("user", text),
            Message("assistant", text),
            Message("tool", text),
            Message("assistant", text),
        )
        turn = TurnTrace(steps, Verdict(False, False))
        diagnose(Trace(task.id, (turn,), "step_limit", len(task.calls), told), task, world)

    return labelled


def repeated(piece: str, size: int) -> str:
    """`piece` again and again, with the numbers from FIRST on in the places of `#n`."""
    if "#n" not in piece:
        return (piece * (size // len(piece) + 1))[:size]
    return "".join(
        piece.replace("#n", str(FIRST + number)) for number in range(size // len(piece) + 1)
    )[:size]


def seconds(work: Callable[[], object]) -> float:
    """CPU time, the best of three; once is enough where it takes a second."""
    best = float("inf")
    for _ in range(3):
        stem.cache_clear()  # or the longest text alone would have new words
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
        if best > 1:
            break
    return best


if __name__ == "__main__":
    run(measure, only="the name of one reader")
