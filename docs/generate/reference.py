"""Writes the lists of docs/reference.md and docs/protocol.md from the code: `python -m
docs.generate.reference`. A test compares the pages with it.

Between `<!-- PLACE -->` and `<!-- end -->` stands what the code says of itself at PLACE: of a
module its docstring, of a record or a protocol its docstring and its fields (type and default as
declared, meaning from the `#:` comment beside or above). A field whose comment begins with "`path`
in a record:" has that name; a field of a base class stands in the base's table.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from docs.generate.configuration import field_comments, shown_value

DOCS = Path(__file__).resolve().parents[1]
PAGES = (DOCS / "reference.md", DOCS / "protocol.md")
_PART = re.compile(r"^(<!-- (?!end )([\w.]+) -->\n).*?(?=^<!-- end -->$)", re.MULTILINE | re.DOTALL)
_IN_A_RECORD = re.compile(r"`([\w.]+)` in a record: ")


def filled(page: str) -> str:
    """The Markdown page with its generated parts as the code has them now."""
    return _PART.sub(lambda part: f"{part[1]}\n{_told(part[2])}\n\n", page)


def _told(place: str) -> str:
    """Raises AttributeError or ImportError where nothing of that name is."""
    found = _found(place)
    if isinstance(found, ModuleType):
        return inspect.getdoc(found) or ""
    rows = [*_fields(found), *(_methods(found) if getattr(found, "_is_protocol", False) else ())]
    return "\n".join([f"{inspect.getdoc(found)}", f"(`{place}`)", "", *rows])


def _found(place: str) -> Any:
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError:
        module, _, name = place.rpartition(".")
        return getattr(importlib.import_module(module), name)


def _fields(kind: type) -> Iterator[str]:
    said = field_comments(kind)
    hints = get_type_hints(kind)
    given = _defaults(kind)
    inherited = {name for base in kind.__mro__[1:] for name in inspect.get_annotations(base)}
    for name, declared in inspect.get_annotations(kind).items():
        if name.startswith("_") or name in inherited:
            continue
        default = shown_value(given[name]) if name in given else "required"
        # what pydantic asks besides is for whoever reads records
        text = _spelled(hints[name] if "Annotated[" in str(declared) else declared)
        text = re.sub(r"^Optional\[(.*)\]$", r"\1 | None", text)
        where = _IN_A_RECORD.match(said[name])
        meaning = said[name][where.end() :] if where else said[name]
        shown = _type(hints[name], text)
        yield _row(where[1] if where else name, f"{shown}; {default}" if given else shown, meaning)


def _methods(kind: type) -> Iterator[str]:
    for name, method in vars(kind).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            signature = inspect.signature(method)
            shown = ", ".join(each for each in signature.parameters if each != "self")
            yield _row(
                f"{name}({shown})",
                f"`{_spelled(signature.return_annotation)}`",
                inspect.getdoc(method) or "",
            )


def _row(name: str, kind: str, meaning: str) -> str:
    return f"- `{name}` ({kind}): {' '.join(meaning.split())}"


def _defaults(kind: type) -> Mapping[str, Any]:
    if not is_dataclass(kind):
        return getattr(kind, "_field_defaults", {})  # of a NamedTuple
    with_factory = {
        each.name: each.default_factory()
        for each in fields(kind)
        if each.default_factory is not MISSING
    }
    plain = {
        each.name: each.default
        for each in fields(kind)
        if each.init and each.default is not MISSING
    }
    return {
        name: "none" if callable(value) else value for name, value in plain.items()
    } | with_factory


def _spelled(annotation: Any) -> str:
    """An annotation as its module writes it, by names without their packages: text, a reference, or
    what it is."""
    plain = isinstance(annotation, type) and not get_args(annotation)
    text = annotation.__name__ if plain else str(getattr(annotation, "__forward_arg__", annotation))
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)", "", text)


def _type(hint: Any, declared: str) -> str:
    """As it is declared; choices one by one, and of a function only that it is one: its comment
    says the rest."""
    choices = [
        choice
        for part in (hint, *get_args(hint))
        if get_origin(part) is Literal
        for choice in get_args(part)
    ]
    if choices:
        return ", ".join(
            f"`{choice}`"
            for choice in [*choices, *([None] if type(None) in get_args(hint) else [])]
        )
    return "function" if declared.startswith("Callable[") else f"`{declared}`"


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
