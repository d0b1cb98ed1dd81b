"""The form in which a language model answers: one JSON object held to a schema, or text in tags.

`AnswerForm` declares the fields of an answer with their schemas. Constrained, an answer is one JSON
object that the server holds to `AnswerForm.schema()`. Tagged, each field stands between tags of its
name: texts as they are, a list of things of one kind as one pair of tags an element, the rest as
JSON. `read` gives the same dictionary of either and is strict. Thinking goes into `reason`; what a
model thinks before its answer is dropped."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rods import model_json
from rods.analysis.schemas import Checker
from rods.faults import ErrorType
from rods.llm.wire import THOUGHTS

Schema = Mapping[str, Any]
LONGEST = 100_000  # characters of an answer
_REASON = re.compile(r"<reason>(.*?)</reason>", re.DOTALL)


class Unreadable(ValueError):
    """An answer without the demanded form or meaning. The text says to the model what was wrong;
    `error` is the type of the failure when no further try helps, instead of the one that the caller
    named; `functions` take part in it."""

    def __init__(
        self, text: str, error: ErrorType | None = None, functions: Sequence[str] = ()
    ) -> None:
        super().__init__(text)
        self.error = error
        self.functions = tuple(functions)


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """`fields` in the order in which they are written; `optional` ones may be left out. The schemas
    of `guiding` ones bind a constrained answer only: whoever reads the answer says better what is
    wrong with them. `bound`, if there is one: a field, and the field (an enum) and value with which
    it has to stand; with others it need not."""

    fields: Mapping[str, Schema]
    optional: frozenset[str] = frozenset()
    guiding: frozenset[str] = frozenset()
    bound: tuple[str, str, str] | None = None

    def schema(self, reason: int) -> dict[str, Any]:
        """JSON Schema of the constrained answer, with so many characters of thinking before the
        fields."""
        fields = {"reason": {"type": "string", "maxLength": reason}, **self.fields}
        if self.bound is None:
            return obj(fields, optional=self.optional)
        name, field, value = self.bound
        others = [other for other in self.fields[field]["enum"] if other != value]
        without = {**fields, field: {"type": "string", "enum": others}}
        del without[name]
        forms = ({**fields, field: {"const": value}}, without)
        return {"anyOf": [obj(form, optional=self.optional) for form in forms]}

    def read(self, text: str, *, constrained: bool) -> dict[str, Any]:
        """The fields of an answer, and its `reason` ("" when there is none). Raises Unreadable."""
        text = text[thoughts.end() :] if (thoughts := THOUGHTS.match(text)) else text
        if len(text) > LONGEST:
            raise Unreadable(f"the answer has {len(text)} characters, at most {LONGEST} are read")
        answer = self._in_object(text) if constrained else self._in_tags(text)
        bound, field, value = self.bound or ("", "", "")
        for name, schema in self.fields.items():
            if name not in answer:
                if name == bound and answer.get(field) == value:
                    raise Unreadable(f'{name} is missing, which "{value}" needs')
                if name not in self.optional and name != bound:
                    raise Unreadable(f"{name} is missing")
            elif name not in self.guiding and (what := Checker(schema).fault(answer[name])):
                raise Unreadable(f"{name} {what}")
        return answer

    def _in_object(self, text: str) -> dict[str, Any]:
        try:
            value = model_json.find(text)
        except ValueError as error:
            raise Unreadable(f"no JSON object could be read: {error}") from None
        if not isinstance(value, dict):
            raise Unreadable("the answer is not a JSON object")
        reason = value["reason"] if isinstance(value.get("reason"), str) else ""
        return {"reason": reason, **{name: value[name] for name in self.fields if name in value}}

    def _in_tags(self, text: str) -> dict[str, Any]:
        # a tag behind it has no end to be looked for
        closed = text.rfind("</reason>") + len("</reason>")
        reasons = _REASON.findall(text, 0, closed)
        text = _REASON.sub("", text[:closed]) + text[closed:]
        answer: dict[str, Any] = {"reason": " ".join(reasons).strip()}
        for name, schema in self.fields.items():
            parts = _between_tags(name, text)
            if schema.get("type") == "array" and "items" in schema:
                answer[name] = [_value(name, part, schema["items"]) for part in parts]
            elif len(parts) > 1:
                raise Unreadable(f"<{name}> stands there {len(parts)} times")
            elif parts:
                answer[name] = _value(name, parts[0], schema)
        return answer


def read_forms(file: Path) -> dict[str, AnswerForm]:
    """The forms in a TOML file by their names, such as those of templates: a table each, as
    `AnswerForm`."""
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    return {
        name: AnswerForm(
            table["fields"],
            frozenset(table.get("optional", ())),
            frozenset(table.get("guiding", ())),
        )
        for name, table in tables.items()
    }


def obj(fields: Mapping[str, Schema], optional: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The schema of an object with exactly these fields."""
    required = [name for name in fields if name not in optional]
    return {
        "type": "object",
        "properties": dict(fields),
        "required": required,
        "additionalProperties": False,
    }


def _between_tags(name: str, text: str) -> list[str]:
    """The contents of all pairs of tags called `name`. Raises Unreadable when they are not
    pairs."""
    opened = f"<{name}>"
    closed = f"</{name}>"
    parts = []
    for piece in text.split(opened)[1:]:
        inside, end, _ = piece.partition(closed)
        if not end:
            raise Unreadable(f"{opened} is not closed")
        parts.append(inside.strip())
    if text.count(closed) != len(parts):
        raise Unreadable(f"{closed} without {opened}")
    return parts


def _value(name: str, text: str, schema: Schema) -> Any:
    if schema.get("type") == "string":
        return text
    try:
        return model_json.find(text)
    except ValueError as error:
        raise Unreadable(f"<{name}> does not hold JSON: {error}") from None
