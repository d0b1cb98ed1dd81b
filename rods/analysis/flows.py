"""Where the value of every ground-truth argument came from, inferred from texts, results and state
(004 §3.3).

Sources are tried in this order: what the user says in this turn, the tool's default, what a call of
this turn returned, what was said in earlier turns, what a call of an earlier turn returned, the
initial state. Of several calls the nearest counts whose result has the value without being given it
as an argument. A value that is found nowhere counts as said by the user in other words. Small
values (1, True, "a") occur everywhere by accident: for them a result counts only when the name of
its field is akin to the argument's, and it is tried before what was said earlier."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Literal

from rods.analysis.containment import Text, akin, is_small, key_of, keys_in, leaves, values_in
from rods.calls import Call
from rods.canonical import JsonObject, frozen
from rods.environments.base import Result, Results, Tool, Tools, value_of
from rods.tasks import Task


@frozen
class Flow:
    """Where one argument's value came from. `source` is `user` (said in this turn), `earlier` (said
    in an earlier turn), `result` (turn and call index in `origin`), `state` (readable there), or
    `default`."""

    source: Literal["user", "earlier", "result", "state", "default"]
    origin: tuple[int, int] | None = None

    def as_json(self) -> JsonObject:
        origin = {} if self.origin is None else {"origin": list(self.origin)}
        return {"source": self.source, **origin}


class Output:
    """What a call returned: the leaves of its result without the values of its own arguments."""

    def __init__(self, position: tuple[int, int], call: Call, result: Result) -> None:
        self.position = position
        self.whole = value_of(result)
        own = keys_in(call.arguments)
        self.fields: dict[Any, set[str]] = {}  # the names of the fields that hold a value
        for name, leaf in leaves(self.whole, keys=True):
            if (key := key_of(leaf)) not in own:
                self.fields.setdefault(key, set()).add(name)

    @cached_property
    def text(self) -> Text:
        return Text("\n".join(key for key in self.fields if isinstance(key, str)), frozenset())

    def brought(self, argument: str, value: Any) -> bool:
        if isinstance(value, (list, dict)):
            parts = values_in(value)
            return bool(parts) and all(self.brought(argument, part) for part in parts)
        names = self.fields.get(key_of(value), ())
        telling = not is_small(value) or not isinstance(self.whole, (dict, list))
        return bool(names) and (telling or any(akin(name, argument) for name in names))

    def has(self, argument: str, value: Any) -> bool:
        return self.brought(argument, value) or self.mentions(value)

    def mentions(self, value: Any) -> bool:
        """Whether the value stands inside a longer text of the result."""
        return isinstance(value, str) and not is_small(value) and self.text.contains_exact(value)


def entries(
    value: Any, name: str, above: Mapping[Any, Any]
) -> Iterator[tuple[str, Any, Mapping[Any, Any]]]:
    """(name, leaf, the leaves of its record) of a result; the keys of objects in an object are
    leaves, too."""
    if isinstance(value, dict):
        beside = {
            **above,
            **{key_of(leaf): leaf for leaf in value.values() if not isinstance(leaf, (dict, list))},
        }
        for key, item in value.items():
            if isinstance(item, dict):
                flat = {
                    key_of(leaf): leaf
                    for leaf in item.values()
                    if not isinstance(leaf, (dict, list))
                }
                yield name, int(key) if key.isdecimal() else key, {**above, **flat}
                yield from entries(item, key, {**above, key_of(key): key})
            else:
                yield from entries(item, key, beside)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from entries(item, name, above)
    elif value is not None:
        yield name, value, above


def infer(tools: Tools, task: Task, results: Results) -> list[list[dict[str, Flow]]]:
    """A dictionary of flows a call, turn by turn. `results`: of the ground truth. Raises KeyError
    for unknown tools."""
    state = keys_in(task.state or {}, keys=True)
    texts = [Text.of(text) for text in task.script]
    outputs: list[Output] = []

    def flow(tool: Tool, argument: str, value: Any, turn: int) -> Flow:
        parameter = tool.by_name.get(argument)
        if texts[turn].contains_exact(value):
            return Flow("user")
        if (
            parameter is not None
            and not parameter.required
            and key_of(parameter.default) == key_of(value)
        ):
            return Flow("default")
        in_texts = [text.contains_exact(value) for text in texts[:turn]]
        producer = next(
            (output.position for output in reversed(outputs) if output.brought(argument, value)),
            None,
        )
        if producer is not None:
            # looked up in this very turn, so hardly remembered from an earlier text; unless no call
            # served that then
            asked_before = bool(turn) and not task.calls[turn - 1] and in_texts[-1]
            if (producer[0] == turn and not asked_before) or is_small(value) or not any(in_texts):
                return Flow("result", producer)
        if any(in_texts):
            return Flow("earlier")
        if mention := next(
            (output.position for output in reversed(outputs) if output.mentions(value)), None
        ):
            return Flow("result", mention)
        schema = parameter.schema if parameter is not None else {}
        # the tool's document offers it, no need to look
        listed = "enum" in schema or "enum" in schema.get("items", {})
        if not listed and not is_small(value) and keys_in(value) <= state:
            return Flow("state")
        return Flow("user")

    flows: list[list[dict[str, Flow]]] = []
    for turn, calls in enumerate(task.calls):
        flows.append([])
        for index, call in enumerate(calls):
            flows[turn].append(
                {
                    name: flow(tools[call.name], name, value, turn)
                    for name, value in call.arguments.items()
                }
            )
            outputs.append(Output((turn, index), call, results[turn][index]))
    return flows
