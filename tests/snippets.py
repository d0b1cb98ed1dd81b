"""Finds the code blocks of the guides and carries them out, for tests/test_snippets.py.

A fence says what its block holds; of an indented block that is seen from the text:

- `sh`: its commands run in order, in a folder that all blocks of a page share. It holds what `rods
  init` makes, and the recorded run of `rods dash --example` as `runs/demo`, `runs/demo-1` and
  `runs/mine`, with its configuration as `my.toml` and its tasks as `mine.jsonl`;
- `python`: runs there; `toml`: is read as a part of a configuration; `json`: is a task;
- `text`, `jsonl` and whatever else there is (drawings, outputs, trees of files): nothing runs, so
  it is declared.

What does not run is declared in tests/snippets.toml, page by page: the first words of the command,
or of the first line of another block, and why; of an output the command that it is printed by,
which is compared. Commands that are declared are looked over all the same: options of our programs,
targets of `make`, files.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import orjson
from cyclopts import App, CoercionError, CycloptsError, MissingArgumentError
from pydantic import BaseModel

import rods.console.main
import rods.daemon.main
import rods.trainer.main
from rods import commands
from rods.config import Config, parse_config
from rods.tasks import Task

ROOT = Path(__file__).parent.parent
DECLARED: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
EVERYWHERE = "*"  # declarations for all pages
PROGRAMS: dict[str, Callable[[], App]] = {
    "rods": rods.console.main.application,
    "rods-train": rods.trainer.main.application,
    "rods-daemon": rods.daemon.main.application,
}
if find_spec("rods.family.benchmarks"):  # which can be taken out
    from rods.family.benchmarks.main import application

    PROGRAMS["rods-eval"] = application
PROGRAM = r"\.|rods|rods-\w+|make|cd|sh|git|jq|for|echo|python|accelerate|\S*vllm|sbatch|pip"
SHELL = re.compile(rf"(?:[A-Z_]+=\S+ )*(?:{PROGRAM})\s")
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
KEY = re.compile(r"\[*([a-z_]+(?:\.[a-z_]+)+)\]*(?: = .*)?")
FILES = ("toml", "md", "py", "js", "json", "jsonl")  # `pool.jsonl` is a file, no key
OTHERS = ("curriculum.extensions",)  # of a checkpoint, not of a configuration


@dataclass(frozen=True)
class Block:
    page: str  # path from the root
    line: int  # of its first line, from 1
    kind: str
    text: str

    @property
    def first(self) -> str:
        return self.text.split("\n")[0].strip()

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Every page that people write: docs/bfcl-variants.md is a program's."""
    listed = subprocess.check_output(["git", "ls-files", "*.md"], text=True, cwd=ROOT).split()
    left_out = ("docs/bfcl-variants.md", ".github/")
    return [page for page in listed if not page.startswith(left_out)]


def blocks(page: str, text: str) -> Iterator[Block]:
    """The code blocks of a page, in order. Directives of the site (`{toctree}`) are none."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        end = at + 1
        if fence := re.match(r"```(\S*)", lines[at]):
            while lines[end] != "```":
                end += 1
            if not fence[1].startswith("{"):
                yield Block(page, at + 2, fence[1] or "text", "\n".join(lines[at + 1 : end]))
            end += 1
        elif lines[at].startswith("    ") and not lines[at - 1].strip():
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            shown = "\n".join(line[4:] for line in lines[at:end]).strip("\n")
            yield Block(page, at + 1, kind(shown), shown)
        at = end


def kind(text: str) -> str:
    """What an indented block holds: "sh", "json", "toml" or "text"."""
    if all(SHELL.match(f"{command} ") for command in in_order(text)):
        return "sh"
    for name, read in (("json", orjson.loads), ("toml", tomllib.loads)):
        try:
            read(text)
        except ValueError:
            continue
        return name
    return "text"


def in_order(text: str) -> list[str]:
    """The commands of a shell block: continued lines and loops as one, without comments."""
    found: list[str] = []
    for line in text.replace("\\\n", " ").split("\n"):
        command = re.sub(r"(^|\s+)#.*$", "", line).strip()
        if found and found[-1].startswith("for ") and not found[-1].endswith("done"):
            found[-1] += f"\n{command}"
        elif command:
            found.append(re.sub(r"  +", " ", command))
    return found


def declared(page: str, first: str, used: set[tuple[str, str]]) -> str | None:
    """Why `first`, a command or the first line of a block, does not run; None where it does, or the
    longest beginning that is declared gives no reason. Notes what was used."""
    for section in (page, EVERYWHERE):
        if beginnings := [each for each in DECLARED.get(section, {}) if first.startswith(each)]:
            used.add((section, beginning := max(beginnings, key=len)))
            return DECLARED[section][beginning] or None
    return None


# Commands


def parse(words: list[str]) -> None:
    """Raises what cyclopts has against the command line of one of our programs, without running
    it."""
    if words[0] == "rods" and f"rods-{words[1]}" in PROGRAMS:
        words = [f"rods-{words[1]}", *words[2:]]
    arguments = ["1" if word == "N" else word for word in words[1:]]
    PROGRAMS[words[0]]().parse_args(arguments, exit_on_error=False, print_error=False)


def parts(command: str) -> list[list[str]]:
    """The words of each simple command in a shell command, without the variables that are set for
    it."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    for word in lexer:
        if word in ("&&", "||", "|", ";", "&", "do", "done"):
            found.append([])
        elif found[-1] or not re.match(r"[A-Z_]+=", word):
            found[-1].append(word)
    return [words for words in found if words]


def look_over(command: str) -> None:
    """Asserts what can be told of a command without running it."""
    subprocess.run(["sh", "-n", "-c", re.sub(r"<.*?>", "x", command)], check=True)
    for words in parts(command):
        if words[0] == "accelerate":
            words = ["rods-train", *words[words.index("-m") + 2 :]]
        match words:
            case [program, *_] if program in PROGRAMS:
                parse(words)
            case ["make", target, *_]:
                assert re.search(
                    rf"^[\w -]*\b{target}[ \w-]*:(?! TESTS)",
                    (ROOT / "Makefile").read_text(),
                    re.MULTILINE,
                ), f"no target {target}"
            case ["python", "-m", "venv", *_]:
                pass
            case ["python", "-m", module, *options]:
                found = find_spec(module)
                assert found and found.origin, f"no module {module}"
                package = Path(found.origin).parent.rglob("*.py")
                source = "".join(file.read_text(encoding="utf-8") for file in package)
                named = [option for option in options if option.startswith("--")]
                parameters = {
                    option: f"{option.removeprefix('--').replace('-', '_')}:" for option in named
                }
                missing = [
                    name
                    for name in named
                    if f'"{name}"' not in source and parameters[name] not in source
                ]
                assert not missing, f"{module} has no {missing}"
            case ["sh" | "python" | "sbatch", *_]:
                (file, *_) = [word for word in words[1:] if not word.startswith("-")]
                assert (ROOT / file).is_file(), f"no file {file}"


def carry_out(command: str, folder: Path, stand_ins: dict[str, str]) -> Path:
    """Runs a command in `folder`, with the names of things that are there for those of the guide
    (`stand_ins`). Our programs run in this process, others by the shell. Raises where it fails;
    returns the folder in which it ends."""
    simple = parts(command)
    if any(words[0] not in (*PROGRAMS, "cd") for words in simple):
        subprocess.run(["sh", "-c", command], cwd=folder, check=True, timeout=60)
        return folder
    for words in simple:
        words = [stand_ins.get(word, word) for word in words]
        if words[0] == "cd":
            folder = folder / words[1]
        else:
            with contextlib.chdir(folder):
                code = commands.run(PROGRAMS[words[0]](), words[1:])
            assert code == 0, f"`{' '.join(words)}` ended with {code}"
    return folder


# What is not run but read


def not_printed(shown: str, command: str, folder: Path) -> set[str]:
    """What a page shows as the output of a command of `rods`, and that does not print in `folder`.
    Numbers are masked; compared is piece by piece, between commas, semicolons, wider gaps and
    lines: another moment has other numbers, and may lack a piece."""
    words = [sys.executable, "-m", "rods.console", *shlex.split(command)[1:]]
    printed = subprocess.run(
        words, cwd=folder, check=True, timeout=120, capture_output=True, text=True
    ).stdout
    return _pieces(shown) - _pieces(printed)


def _pieces(text: str) -> set[str]:
    masked = re.sub(r"[+-]?\d+(?:\.\d+)?", "N", re.sub(r",\n *", ", ", text))
    return {piece.strip() for piece in re.split(r"\n|[,;] |  +", masked)}


def read_toml(text: str, where: str) -> None:
    """Raises UserError where the text is no part of a configuration."""
    parse_config(
        {"data": {"tasks": "desk"}, "policy": {"model": "models/mine"}, **tomllib.loads(text)},
        where=where,
    )


def read_json(text: str) -> None:
    """Raises where the text is no task."""
    Task.from_json(orjson.loads(text))


def run_python(text: str, folder: Path) -> None:
    subprocess.run([sys.executable, "-c", text], cwd=folder, check=True, timeout=60)


# In sentences


def wrong_in_sentences(text: str) -> list[str]:
    """Of the code in a page's sentences: commands that our programs do not know, and keys of no
    configuration."""
    wrong = []
    for code in CODE.findall(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)):
        words = code.split()
        if words[0] in PROGRAMS and len(words) > 1:
            try:
                parse(shlex.split(code.replace("…", "x")))
            except (MissingArgumentError, CoercionError):
                pass  # a name for what is to be filled in, or only the verb
            except CycloptsError as error:
                wrong.append(f"{code}: {error}")
            continue
        key = KEY.fullmatch(code)
        if (
            key
            and not key[1].endswith((*FILES, *OTHERS))
            and not _is_key(key[1].split("."), Config)
        ):
            wrong.append(code)
    return wrong


def _is_key(parts: list[str], model: type[BaseModel]) -> bool:
    """Whether a dotted key that begins with a section of the configuration goes on with keys that
    are in it."""
    if not parts:
        return True
    field = model.model_fields.get(parts[0])
    if field is None:
        return model is Config  # not a key at all: a module, a field of a record
    inner = [each for each in _classes(field.annotation) if issubclass(each, BaseModel)]
    return (
        _is_key(parts[1:], inner[0])
        if inner
        else len(parts) == 1 or dict in _classes(field.annotation)
    )


def _classes(annotation: Any) -> list[type]:
    """The classes in an annotation: of `tuple[Stage, ...] | None` tuple, Stage and NoneType."""
    inner = [found for part in get_args(annotation) for found in _classes(part)]
    origin = getattr(annotation, "__origin__", annotation)
    return [*([origin] if isinstance(origin, type) else []), *inner]
