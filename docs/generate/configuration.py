"""Writes docs/configuration.md and docs/paper.md from rods/config/: `python -m
docs.generate.configuration`. A test compares the pages with them.

Type, default and range of a key come from the pydantic field, its meaning from the comment beside
or above it, the meaning of a section from its docstring, so that a key is described where it is
defined.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo

import rods.config
from rods.config import Config, Endpoint, Section, preset

PAGE = Path(__file__).resolve().parents[1] / "configuration.md"
PAPER = PAGE.with_name("paper.md")
PAPER_PRESET = "rods-paper"
HEAD = """# Configuration

One TOML file a run, given to `rods up` or `rods-train` with `--config`. Every key is optional;
unknown keys and wrong types are errors that name the key. A line a key: type and range; default:
meaning.

Everything but `[operation]` is the run's *identity*: fixed when the run is created; a later start
with another one is refused with the difference (`rods trainer fork` goes on from it). `[operation]`
may change at every start.

A file may begin with `extends = "other.toml"`, relative to it: what it leaves out is then as in the
other file, key by key, as if it stood here (relative paths too); a list, such as
`[[curriculum.stages]]`, is taken whole. A preset is below both.

This page is written by `python -m docs.generate.configuration` from `rods/config/`.
"""
PAPER_HEAD = """# The paper's form

    preset = "rods-paper"

as a configuration's first line sets every key below to what paper 004 says, or to what stands in
for a number that its text lost or leaves out ("where" names the source), wherever the file leaves
the key out. What the file says wins. The run records every key as it was resolved, and the preset's
name. The policy's folder (`policy.model`) and the models that write (`[[operation.endpoints]]`)
have to be named; what is set for an endpoint holds for each of them. Recipes for three models, each
with its baselines, lie in [experiments/training](../experiments/training/README.md).

"""
PAPER_TAIL = """
## What the preset leaves

"Second-hand" marks numbers that a third party reports, since the paper's text lost most of them.
Where nobody reports what was lost, or the paper says nothing, our default stays: sizes of windows
and of what drift reads, ages at which truncated and unsampled variants are pruned, quotas beyond an
equal one, tries at an unreadable answer, temperatures, mini-batches (a batch is one update;
`training.passes` repeats it), lengths, and the limits of `[gates]`. Further,

- the writers' own thinking is left as their server has it (`thinking` of `[roles]`; the recipes
  switch it off); prompts ask for `<reason>` tags in its place, as the paper does (Appendix B.3);
- `gates.referents` and `gates.repeats`, which the paper lacks, stay on;
- what guards the comparison stays: variants that match a held-out task are refused
  (`gates.contamination`), so are those that do not fit the policy's context (`gates.room`),
  rollouts that the machinery broke count for nobody, and those cut by length make no zones;
- the prompt for values also shows some that the world takes at that moment; the planner's also
  lists the functions that the world refuses at the start;
- HIGH-LEVEL functions (Appendix D) are written by the planner for its own plan and stand in no
  catalogue; with `pipeline.recipes = true` an environment's recipes are such functions;
- rules decide what may be taken away for an adversarial form; a model chooses, and words the two
  turns of `miss_param`, while what comes back in `miss_func` has fixed words;
- a plan keeps the number of calls that the root has in each turn. After `query_verify_failed`,
  "one function a turn" (Appendix E) means one HIGH-LEVEL function for all of them. Variants are
  held against the root of their lineage;
- after a patch the same plan is tried again, and only then another one is asked for, where Appendix
  F applies patch and blocklist together; requests that the verification rejects are written once
  more before that, and one call verifies those of all turns;
- the daemon picks seeds from the log, where the paper's trainer emits them (Appendix N); in `sync =
  "free"` it looks at the newest step alone, and `selection.queue_steps` is about what was picked;
- wording is held to rules before any judge sees it, whatever `gates.leaks` says;
- the judge answers on each of the five criteria of Appendix G, and the fail classifier of Appendix
  C.5 also names the turn at fault; prompts are our own throughout;
- equation 5, the reward of stage 1, was lost: `format_codes` follows its description. So was the
  number of epochs of each stage: the first two end at a plateau. How long a plateau is
  (`curriculum.plateau_epochs`, `plateau_after`), the 20 epochs after which they end at the latest,
  and `curriculum.gradient_variation` are our numbers.

For PPO (Appendix K) see [training.md](training.md#ppo-004-appendix-k).
"""
_PRESET = re.compile(r"^(\w+) = .*?  # (.+)$")
_COMMENT = re.compile(r"^    (\w+): .*?  #:? (.+)$")
_ABOVE = re.compile(r"^    #:? (.+)$")
_FIELD = re.compile(r"^    (\w+): ")
_BOUNDS = {"Ge": ("≥", "ge"), "Gt": (">", "gt"), "Le": ("≤", "le"), "Lt": ("<", "lt")}


def page() -> str:
    """The whole Markdown page."""
    parts = [HEAD]
    own = {
        name: field
        for name, field in Config.model_fields.items()
        if not _is_section(field.annotation)
    }
    parts.append("## Top level\n\n" + (inspect.getdoc(Config) or "") + "\n\n" + _table(Config, own))
    for name, field in Config.model_fields.items():
        section: Any = field.annotation
        if _is_section(section):
            parts.append(_section(f"[{name}]", section))
            if _all_tables(section):
                parts.append(_matrix(name, section))
                continue
            comments = field_comments(section)
            seen = dict[Any, str]()
            for key, inner in section.model_fields.items():
                if _is_section(inner.annotation):
                    parts.append(_section(f"[{name}.{key}]", inner.annotation))
                    if _all_tables(inner.annotation):
                        parts.append(_matrix(f"{name}.{key}", inner.annotation))
                elif _is_section(element := _element(inner)):
                    title = f"[[{name}.{key}]]"
                    if element in seen:  # two lists of the same kind of table
                        meaning = comments[key][0].upper() + comments[key][1:]
                        parts.append(
                            f"## `{title}`\n\n{meaning}.\n\nIts keys are those of "
                            f"`{seen[element]}`.\n"
                        )
                    else:
                        parts.append(_section(title, element))
                        seen[element] = title
    return "\n".join(parts)


def paper_page() -> str:
    """docs/paper.md: every key of the preset, what the paper has and where, our default, and why it
    is another one."""
    values = preset(PAPER_PRESET)
    defaults = Config().model_dump(mode="json")
    defaults["operation"]["endpoints"] = {
        name: field.default for name, field in Endpoint.model_fields.items()
    }
    lines = ["| setting | paper | where | our default | why |", "|---|---|---|---|---|"]
    path = ""
    file = Path(rods.config.__file__).with_name(f"{PAPER_PRESET}.toml")
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            path = line.strip("[]")
        elif told := _PRESET.match(line):
            paper, default = (
                _at(table, [*path.split("."), told[1]]) for table in (values, defaults)
            )
            source, _, why = told[2].partition(" | ")
            ours = "the same" if paper == default else f"`{_shown(default)}`"
            lines.append(f"| `{path}.{told[1]}` | `{_shown(paper)}` | {source} | {ours} | {why} |")
    return PAPER_HEAD + "\n".join(lines) + "\n" + PAPER_TAIL


def _at(table: Any, path: list[str]) -> Any:
    for name in path:
        table = table[name]
    return table


def _shown(value: Any) -> str:
    """A value of a preset as one would write it, stages in short."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        stages = [
            f"{stage.get('reward', 'progress')} on {', '.join(stage.get('types', ['all']))}"
            for stage in value
        ]
        return "; ".join(stages)
    return str(value).lower() if isinstance(value, bool) else str(value).replace("'", '"')


def _section(title: str, section: Any) -> str:
    fields = {
        name: field
        for name, field in section.model_fields.items()
        if not _is_section(field.annotation) and not _is_section(_element(field))
    }
    text = f"## `{title}`\n\n{inspect.getdoc(section) if section.__doc__ else ''}".rstrip() + "\n"
    return text + ("\n" + _table(section, fields) if fields else "")


def _table(section: type[Section], fields: dict[str, FieldInfo]) -> str:
    comments = field_comments(section)
    lines = []
    for name, field in fields.items():
        lines.append(_line(name, f"{_type(field)}; {_default(field)}", comments.get(name, "")))
    return "\n".join(lines) + "\n"


def _line(name: str, kind: str, meaning: str) -> str:
    return f"- `{name}` ({kind}): {meaning}"


def _matrix(name: str, section: type[Section]) -> str:
    """A section whose tables resemble each other: every key once, with the default that most tables
    have, and of each table the defaults that differ from it, and those of keys that not every table
    has."""
    kinds: list[Any] = [field.annotation for field in section.model_fields.values()]
    keys = {
        key: (kind, field) for kind in reversed(kinds) for key, field in kind.model_fields.items()
    }
    order = sorted(keys, key=lambda key: -sum(key in kind.model_fields for kind in kinds))
    defaults = {table: field.default.model_dump() for table, field in section.model_fields.items()}
    common: dict[str, Any] = {}
    lines = []
    for key in order:
        values = [table[key] for table in defaults.values() if key in table]
        if len(values) == len(defaults):
            common[key] = Counter(values).most_common(1)[0][0]
        kind, field = keys[key]
        lines.append(
            _line(key, f"{_type(field)}; {common.get(key, 'see below')}", field_comments(kind)[key])
        )
    lines += ["", "Tables, with the defaults that differ:", ""]
    for name_of_table, table in defaults.items():
        differing = [f"{key} {value}" for key, value in table.items() if value != common.get(key)]
        shown = f" ({', '.join(differing)})" if differing else ""
        lines.append(
            f"- `[{name}.{name_of_table}]`{shown}: {field_comments(section)[name_of_table]}"
        )
    return "\n".join(lines) + "\n"


def field_comments(kind: type) -> dict[str, str]:
    """What the comments beside or above the fields of a class, and of its bases, say: field → text.
    Of a field that stands in several the base's counts."""
    found = dict[str, str]()
    above = ""
    bases = [base for base in reversed(kind.__mro__) if base.__module__.startswith("rods.")]
    for line in "\n".join(map(_source, bases)).splitlines():
        if match := _COMMENT.match(line):
            found.setdefault(match[1], match[2])
        elif above and (field := _FIELD.match(line)):
            found.setdefault(field[1], above)
        above = f"{above} {more[1]}".strip() if (more := _ABOVE.match(line)) else ""
    return found


def _source(kind: type) -> str:
    """Empty for a class that is made of others, as those with the keys of extensions are
    (rods.config.sections.extended)."""
    try:
        return inspect.getsource(kind)
    except OSError:
        return ""


def _type(field: FieldInfo) -> str:
    bounds = []
    for limit in field.metadata:
        if known := _BOUNDS.get(type(limit).__name__):
            bounds.append(f"{known[0]} {getattr(limit, known[1])}")
    return " ".join([_type_words(field.annotation), ", ".join(bounds)]).strip()


def _type_words(kind: Any) -> str:
    if kind in (int, float, bool, str):
        return {int: "integer", float: "number", bool: "bool", str: "text"}[kind]
    if get_origin(kind) is dict:
        return "table"
    if get_origin(kind) is tuple:
        inner = get_args(kind)[0]
        if get_origin(inner) is tuple:
            return f"list of lists of ({_type_words(get_args(inner)[0])})"
        return f"list of ({_type_words(inner)})"
    return ", ".join(f"`{choice}`" for choice in get_args(kind))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return shown_value(field.get_default(call_default_factory=True, validated_data={}))


def shown_value(value: Any) -> str:
    """A default as a table shows it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"`{value}`" if value else "empty"
    if value in ((), {}, frozenset()):
        return "empty"
    if isinstance(value, tuple):
        return (
            "`"
            + str([list(item) if isinstance(item, tuple) else item for item in value]).replace(
                "'", '"'
            )
            + "`"
        )
    return str(value)


def _all_tables(section: Any) -> bool:
    return all(_is_section(inner.annotation) for inner in section.model_fields.values())


def _element(field: FieldInfo) -> Any:
    """What a list holds; None for what is no list."""
    return get_args(field.annotation)[0] if get_origin(field.annotation) is tuple else None


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    PAPER.write_text(paper_page(), encoding="utf-8")
