"""A recorded set of outputs for the comparison with BFCL's scorer: ground truths, mutations of them, malformed text,
odd shapes, and what SmolLM2-135M-Instruct really said.

Entry n depends on (random seed, n) alone. An entry is (task, form, turns): what a result file would hold. The real ones
were recorded from `make llm-server` by

    rods-eval run A --url … --model smollm2-135m-instruct --documents signatures --tasks-per-type 20 --max-tokens 160
    rods-eval run B --config … --documents signatures --tasks-per-type 10 --max-tokens 40 --temperature 0.7
    python -m tests.evaluation.bfcl.recorded A B

B's endpoint had an `extra` with a regular expression for structured_outputs: a bracket, a name, a parenthesis, and
anything up to the line's end. Left alone, a model of this size answers in prose.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.bfcl.decoding import Form
from evaluation.bfcl.parity.mutations import Mutations, Rollout
from evaluation.journal import episodes
from rods.calls import Call
from rods.canonical import keyed_random
from rods.tasks import Task

REAL = Path(__file__).with_name("smollm2_outputs.jsonl.gz")


@dataclass(frozen=True, slots=True)
class Recorded:
    task: Task
    form: Form
    kind: str
    turns: Any


def recorded_set(tasks: Sequence[Task], count: int, random_seed: int = 0) -> Iterator[Recorded]:
    """`count` made entries (a fifth of them unharmed mutations), then the real ones."""
    mutations = Mutations(tasks, random_seed).take(count)
    for number, rollout in enumerate(mutations):
        rng = keyed_random(random_seed, "recorded", number)
        if number % 5 == 0:
            rollout = Rollout(rollout.task, ("ground truth",), [[[c] for c in turn] for turn in rollout.task.calls])
        form: Form = "native" if rng.random() < 0.3 else "prompt"
        turns = [[_said(step, form) for step in turn] + _ending(form, rng) for turn in rollout.turns]
        kind = "+".join(rollout.kinds)
        if number % 5 in (1, 2):
            kind, turns = _harm(turns, form, rng)
        elif number % 25 == 3:
            kind, turns = _reshape(turns, form, rng)
        yield Recorded(rollout.task, form, kind, turns)
    yield from real_outputs(tasks)


def real_outputs(tasks: Sequence[Task]) -> Iterator[Recorded]:
    by_name = {task.provenance["id"]: task for task in tasks}
    for line in gzip.decompress(REAL.read_bytes()).decode().split("\n") if REAL.exists() else ():
        if line:
            entry = json.loads(line)
            yield Recorded(by_name[entry["id"]], entry["form"], "SmolLM2", entry["result"])


def malformed(texts: Sequence[str], count: int, random_seed: int = 0) -> Iterator[str]:
    """`count` harmed outputs in the form of prompts: two faults in every third of them."""
    names = list(TEXT)
    for number in range(count):
        rng = keyed_random(random_seed, "malformed", number)
        text = rng.choice(texts)
        for name in [names[number % len(names)]] + ([rng.choice(names)] if number % 3 == 0 else []):
            text = TEXT[name](text, rng)
        yield text


def _said(step: Sequence[Call], form: Form) -> Any:
    if form == "native":
        return [{call.name: json.dumps(dict(call.arguments))} for call in step]
    return f"[{', '.join(map(str, step))}]"


def _ending(form: Form, rng: random.Random) -> list[Any]:
    """What ends a turn: an answer in words, nothing at all, or an empty list."""
    return [] if rng.random() < 0.1 else [rng.choice(("All done.", "", "[]" if form == "prompt" else [], "Done (1)!"))]


def _harm(turns: list[list[Any]], form: Form, rng: random.Random) -> tuple[str, list[list[Any]]]:
    """One fault in one to all outputs that call."""
    table = TEXT if form == "prompt" else NATIVE
    name = rng.choice(list(table))
    share = rng.choice((0.2, 1.0))
    kind = "prompt" if form == "prompt" else "native"
    return f"{kind}: {name}", [
        [table[name](step, rng) if _calls(step) and rng.random() < share else step for step in turn] for turn in turns
    ]


def _calls(step: Any) -> bool:
    return bool(step) and (isinstance(step, list) or (step.startswith("[") and len(step) > 2))


def _reshape(turns: list[list[Any]], form: Form, rng: random.Random) -> tuple[str, Any]:
    name = rng.choice(list(SHAPES))
    return f"shape: {name}", SHAPES[name](turns, rng)


def _inside(replace: Callable[[str, random.Random], str]) -> Callable[[str, random.Random], str]:
    """A fault in the value of one argument."""

    def harm(text: str, rng: random.Random) -> str:
        places = [index for index, character in enumerate(text) if character == "="]
        if not places:
            return text
        place = rng.choice(places)
        end = min((text.find(mark, place) for mark in (",", ")") if text.find(mark, place) > 0), default=len(text))
        return text[: place + 1] + replace(text[place + 1 : end], rng) + text[end:]

    return harm


def _positional(text: str, rng: random.Random) -> str:
    place = text.find("=")
    start = max(text.rfind("(", 0, place), text.rfind(",", 0, place))
    return text if place < 0 or start < 0 else text[: start + 1] + text[place + 1 :]


def _cut(text: str, rng: random.Random) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _without(mark: str) -> Callable[[str, random.Random], str]:
    def harm(text: str, rng: random.Random) -> str:
        places = [index for index, character in enumerate(text) if character == mark]
        place = rng.choice(places) if places else len(text)
        return text[:place] + text[place + 1 :]

    return harm


def _scrambled(text: str, rng: random.Random) -> str:
    place = rng.randrange(len(text) + 1)
    return text[:place] + rng.choice("()[]{}'\"=,.:;*-+ \n\t\\0aé’“（\u200b\u2028\x00`#@$%&|<>~^") + text[place:]


def _json(text: str, rng: random.Random) -> str:
    name = text[1:].split("(")[0]
    return json.dumps([{"name": name, "arguments": {"a": 1}}])


TEXT: dict[str, Callable[[str, random.Random], str]] = {
    "fence": lambda text, rng: f"```\n{text}\n```",
    "python fence": lambda text, rng: f"```python\n{text}\n```",
    "no brackets": lambda text, rng: text[1:-1],
    "bracket missing": lambda text, rng: text[1:] if rng.random() < 0.5 else text[:-1],
    "brackets doubled": lambda text, rng: f"[{text}]",
    "parentheses": lambda text, rng: f"({text[1:-1]})",
    "bracket too many": lambda text, rng: text + "]",
    "quote missing": _without("'"),
    "parenthesis missing": _without(")"),
    "comma missing": _without(","),
    "wrapped in quotes": lambda text, rng: f"'{text}'",
    "double quotes": lambda text, rng: text.replace("'", '"'),
    "curly quotes": lambda text, rng: text.replace("'", "’"),
    "prose before": lambda text, rng: f"I will now do it: {text}",
    "prose after": lambda text, rng: f"{text}\nThis does what you asked for.",
    "prose after, bare": lambda text, rng: f"{text[1:-1]} and then I am done",
    "think": lambda text, rng: f"<think>\nwhat now\n</think>\n\n{text}",
    "tool call tag": lambda text, rng: f"<TOOLCALL>{text}</TOOLCALL>",
    "semicolons": lambda text, rng: text[1:-1].replace("), ", "); "),
    "lines": lambda text, rng: text[1:-1].replace("), ", ")\n"),
    "comment": lambda text, rng: f"{text}  # as asked",
    "comment inside": lambda text, rng: text[:-1] + " # as asked\n]",
    "trailing comma": lambda text, rng: text[:-1] + ",]",
    "JSON": _json,
    "spaces": lambda text, rng: f" \n\t{text.replace('(', ' (').replace('=', ' = ')} \n",
    "dotted name": lambda text, rng: "[GorillaFileSystem." + text[1:],
    "call of a result": lambda text, rng: "[ls()." + text[1:],
    "called twice": lambda text, rng: text[:-1] + "()]",
    "positional": _positional,
    "starred": _inside(lambda value, rng: f"*{value}"),
    "keywords unpacked": lambda text, rng: text.replace("(", "(**", 1),
    "argument twice": lambda text, rng: text.replace(")", ", a=1, a=2)", 1).replace("(, ", "(", 1),
    "bare name": _inside(lambda value, rng: value.replace("'", "")),
    "sign": _inside(lambda value, rng: rng.choice(("+", "-", "~", "not ")) + value),
    "sum": _inside(lambda value, rng: f"{value} + {rng.choice(('1', '0', repr(''), 'x', '2.5'))}"),
    "arithmetic": _inside(lambda value, rng: rng.choice(("2*50", "10/4", "7//2", "(1+2)*3", "2**3", "1-1", "'a'+'b'"))),
    "f-string": _inside(lambda value, rng: f"f{value}"),
    "bytes": _inside(lambda value, rng: f"b{value}"),
    "raw string": _inside(lambda value, rng: f"r{value}"),
    "tuple": _inside(lambda value, rng: f"({value},)"),
    "in a list": _inside(lambda value, rng: f"[{value}]"),
    "in a set": _inside(lambda value, rng: f"{{{value}}}"),
    "in a dict": _inside(lambda value, rng: f"{{'value': {value}}}"),
    "dict of dicts": _inside(lambda value, rng: f"{{'value': {{'it': {value}}}}}"),
    "empty dict": _inside(lambda value, rng: "{}"),
    "lambda": _inside(lambda value, rng: f"lambda: {value}"),
    "condition": _inside(lambda value, rng: f"{value} if True else None"),
    "comparison": _inside(lambda value, rng: f"{value} == 1"),
    "subscript": _inside(lambda value, rng: f"{value}[0]"),
    "attribute": _inside(lambda value, rng: f"{value}.text"),
    "unknown call": _inside(lambda value, rng: f"result_of(x={value})"),
    "call without keywords": _inside(lambda value, rng: rng.choice(("pwd()", "ls()", "open('a')", "f(1)"))),
    "JSON words": _inside(
        lambda value, rng: rng.choice(("true", "false", "null", "None", "NaN", "...", "1e999", "1j"))
    ),
    "large": _inside(lambda value, rng: rng.choice(("9" * 25, "1_000", "0x10", "007", "1.", ".5e3"))),
    "call in text": _inside(lambda value, rng: repr(f"{value} sort(x) and mean (y)")),
    "walrus": _inside(lambda value, rng: f"(y := {value})"),
    "cut": _cut,
    "scrambled": _scrambled,
    "scrambled twice": lambda text, rng: _scrambled(_scrambled(text, rng), rng),
    "surrogate": lambda text, rng: text.replace("'", "'\ud800", 1),
    "empty": lambda text, rng: rng.choice(("", " ", "[", "]", "[[]]", "[,]", "None", "()", "```")),
}

NATIVE: dict[str, Callable[[Any, random.Random], Any]] = {
    "arguments cut": lambda step, rng: [{name: _cut(text, rng) for name, text in call.items()} for call in step],
    "arguments scrambled": lambda step, rng: [{n: _scrambled(t, rng) for n, t in call.items()} for call in step],
    "arguments as object": lambda step, rng: [{name: json.loads(text) for name, text in c.items()} for c in step],
    "arguments a list": lambda step, rng: [{name: f"[{text}]" for name, text in call.items()} for call in step],
    "arguments encoded twice": lambda step, rng: [{name: json.dumps(text) for name, text in c.items()} for c in step],
    "arguments empty": lambda step, rng: [dict.fromkeys(call, "") for call in step],
    "arguments null": lambda step, rng: [dict.fromkeys(call) for call in step],
    "single quotes": lambda step, rng: [{name: text.replace('"', "'") for name, text in c.items()} for c in step],
    "not a number": lambda step, rng: [dict.fromkeys(call, '{"a": NaN}') for call in step],
    "one more argument": lambda step, rng: [{n: t[:-1] + ', "more": 1}' for n, t in call.items()} for call in step],
    "name with a space": lambda step, rng: [{f"{name} ": text for name, text in call.items()} for call in step],
    "name with a dot": lambda step, rng: [{f"api.{name}": text for name, text in call.items()} for call in step],
    "key with a space": lambda step, rng: [dict.fromkeys(call, '{"file name": "x"}') for call in step],
    "one object": lambda step, rng: {name: text for call in step for name, text in call.items()},
    "no call at all": lambda step, rng: [{}],
    "text": lambda step, rng: json.dumps(step),
    "null": lambda step, rng: None,
}

SHAPES: dict[str, Callable[[list[list[Any]], random.Random], Any]] = {
    "a turn too few": lambda turns, rng: turns[:-1],
    "a turn too many": lambda turns, rng: [*turns, turns[-1]],
    "no turns": lambda turns, rng: [],
    "turns without outputs": lambda turns, rng: [[] for _ in turns],
    "an error": lambda turns, rng: "Error during inference: the prompt is too long",
    "null": lambda turns, rng: None,
    "answers between calls": lambda turns, rng: [[part for step in turn for part in ("hm", step)] for turn in turns],
    "outputs twice": lambda turns, rng: [[part for step in turn for part in (step, step)] for turn in turns],
    "turns swapped": lambda turns, rng: [*turns[1:], turns[0]],
}


def keep(folders: Sequence[Path]) -> None:
    """Writes the episodes of evaluations as the real part of the set."""
    found = [episode for folder in folders for episode in episodes(folder)]
    lines = [json.dumps({"id": one.task, "form": one.form, "result": one.result}) for one in found]
    REAL.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))


if __name__ == "__main__":
    keep([Path(argument) for argument in sys.argv[1:]])
