"""Authoring for environments that bring no recipes, and for plans of single tools: a catalogue from
tools and schemas.

Every tool is a recipe of one step whose arguments the user says. The domain of an argument lists
what the world offers for it: the options of its schema, or the names and numbers in state and
results whose place is called like the argument. Where there are none, or the argument is free text
or names something new, it lists inventions. All this is a guess from names, and serves as examples:
what a value may be the tool's schema says, and whether it works the call, which `probing` tries
out.

What an entry of the world means is not known either. A copy of what the user asks for would be a
second right answer beside the ground truth. So padding never copies an entry of which any word is
said or used, and leaves a collection as it is where more entries would change a result from which a
later call takes a value."""

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial, reduce
from operator import getitem
from random import Random
from typing import Any

from rods.analysis.containment import COMMON, stem
from rods.analysis.flows import Output
from rods.analysis.sampling import Sampler
from rods.analysis.schemas import Checker, limits
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, unique
from rods.composing.catalogue import (
    LEFT_OUT,
    Catalogue,
    FromUser,
    PhraseBook,
    Recipe,
    RecipeStep,
    Scene,
    catalogue_for,
)
from rods.composing.records import ComposeError, Draft
from rods.daemon.authors.state_shapes import State, is_map, walk
from rods.environments.base import Environment, Parameter, Result, Tool, Tools, kept, value_of
from rods.errors import InfrastructureError

EXAMPLES = 6
WORDS_OF_A_NAME = 4  # a longer text in the state is no name
PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
# what is named is new
MAKING = {"add", "create", "make", "new", "register", "touch", "mkdir", "insert", "draft"}
CHANGING = {"change", "set", "update", "rename", "edit"}  # to what a user says
# the same for its name, title or subject
WRITING = {"write", "post", "send", "book", "open", "place"}
FREE = {
    "text",
    "body",
    "message",
    "content",
    "comment",
    "query",
    "reason",
    "answer",
    "problem",
    "remark",
}  # said in one's own words
WORD = re.compile(r"\w+")
DIGIT = re.compile(r"\d")
QUOTED = re.compile(r"""["'`]([\w /.-]{1,30})["'`]""")  # in a description: often an option
# collections that padding fills up, and entries for each
PADDED_MAPS = 4
PADDING = 8
PADDABLE = 16  # collections that it tries to fill up, the largest first
NAMING = {"name", "title", "subject", "label", "path"}


@kept
def catalogue_with_tools(environment: Environment) -> Catalogue:
    """The environment's own catalogue, with a recipe for each single tool beside its own; or these
    alone."""
    single = single_tools(environment)
    try:
        own = catalogue_for(environment)
    except ComposeError:
        return single
    return replace(
        own, recipes={**single.recipes, **own.recipes}, domains={**single.domains, **own.domains}
    )


def is_single_tool(recipe: Recipe) -> bool:
    """Whether it is a single tool rather than a recipe of the environment's own (which may have a
    tool's name)."""
    tool = recipe.steps[0].tool
    own_domains = all(domain == f"{tool}.{slot}" for slot, domain in recipe.user_slots.items())
    return recipe.name == tool and len(recipe.steps) == 1 and not recipe.needs and own_domains


def takes_free_text(argument: str) -> bool:
    """Whether an argument of this name takes free text, such as a message."""
    return bool(_parts(argument) & FREE)


@kept
def single_tools(environment: Environment) -> Catalogue:
    """A catalogue of the environment's tools alone, whatever recipes it has."""
    tools = environment.tools()
    domains: dict[str, Callable[[Scene], list[Any]]] = {}
    recipes = {}
    for tool in tools.values():
        arguments = {}
        for parameter in tool.parameters:
            name = f"{tool.name}.{parameter.name}"
            domains[name] = partial(_values, tools, tool, parameter)
            arguments[parameter.name] = FromUser(parameter.name, name)
        recipes[tool.name] = Recipe(tool.name, (RecipeStep(tool.name, arguments),), (tool.summary,))
    return Catalogue(
        environment=environment.name,
        recipes=recipes,
        domains=domains,
        book=PhraseBook({1: ("{0}",)}, (), (), {}, {}, {}, longest=80),
        make_state=lambda recipes, avoid, narrative, rng: dict(avoid or {}),
        patch=lambda state, error, rng: None,
        pad=partial(padded, environment),
        topics=lambda rng: {},
        ordinary=frozenset(name for name in tools if name.isalpha() and name.islower()),
    )


def _values(tools: Tools, tool: Tool, parameter: Parameter, scene: Scene) -> list[Any]:
    """What may be said for an argument now, or examples of it."""
    schema = limits(parameter)
    kind = schema.get("type")
    left_out = [] if parameter.required else [LEFT_OUT]
    if "enum" in schema:
        return [*schema["enum"], *left_out]
    if kind == "boolean":
        return [True, False, *left_out]
    free = _is_invented(tool, parameter)
    item = schema.get("items", {}) if kind == "array" else schema
    values = [] if free else _known(tools, tool, item, parameter, scene)
    if kind == "array":
        values = [[value] for value in values]
    return [*(values or _examples(parameter.name, schema)), *left_out]


def _is_invented(tool: Tool, parameter: Parameter) -> bool:
    """Whether a user invents what stands for an argument: free text, or the name of something new.
    In `create_branch(repo_path)` the path is that of another thing."""
    parts = _parts(parameter.name)
    verbs = _parts(tool.name)
    if "path" in parts and parts - {"path"} - verbs - MAKING:
        return False
    new = (parts & (NAMING | verbs) and MAKING & verbs) or (parts & NAMING and WRITING & verbs)
    return takes_free_text(parameter.name) or bool(new and "id" not in parts)


def _known(
    tools: Tools, tool: Tool, schema: JsonMapping, parameter: Parameter, scene: Scene
) -> list[Any]:
    """Names and numbers of state and results whose place is called like the parameter; else like a
    word of its description; for a name, else the keys of what the tool, or its class, is about."""
    offered = [*_leaves(scene.state, ())]
    for call, result in scene.calls:
        offered += _leaves(value_of(result), (), tools[call.name].result)
    checker = Checker(schema)
    own = names_of(tools)
    parts = _parts(parameter.name)
    about = [parts, _parts(parameter.description) - {"name", "id", "number"}]
    if parts & NAMING:
        about += [_parts(tool.name), _parts(tool.group)]
    for number, wanted in enumerate(about):
        near = (leaf for place, leaf, key in offered if wanted & place and (key or number < 2))
        values = [
            leaf
            for leaf in filter(checker.fits, near)
            if not isinstance(leaf, str)
            or (leaf not in own and 0 < len(leaf.split()) <= WORDS_OF_A_NAME)
        ]
        if values:
            return unique(values)
    return []


def is_changed(tool: Tool, argument: str) -> bool:
    """Whether a tool gives a thing this argument as its new value (`change_phone(customer,
    phone)`), which a user says: that a result shows such a value is no reason to set it."""
    verbs = _parts(tool.name)
    first = next(iter(tool.parameter_names), argument)
    return argument != first and bool(CHANGING & verbs and _parts(argument) & verbs)


def names_of(tools: Tools) -> set[str]:
    """The names of tools and of arguments, which a state that is made of calls holds, and nobody
    says as values."""
    return {*tools, *(each.name for tool in tools.values() for each in tool.parameters)}


def fitting_values(parameter: Parameter, scene: Scene) -> list[Any]:
    """What fits a parameter of its default, what its description quotes, and the names and numbers
    of state and results wherever these stand."""
    schema = limits(parameter)
    listed = schema.get("type") == "array"
    checker = Checker(schema.get("items", {}) if listed else schema)
    sources = (scene.state, *(value_of(result) for _, result in scene.calls))
    held = [
        leaf
        for whole in sources
        for _, leaf, _ in _leaves(whole, ())
        if len(str(leaf).split()) <= WORDS_OF_A_NAME
    ]
    examples = (parameter.default, *QUOTED.findall(parameter.description))
    fitting = [
        value for value in (*examples, *held) if value not in (None, "") and checker.fits(value)
    ]
    return [[value] if listed else value for value in unique(fitting)]


def returned_values(
    tool: Tool,
    parameter: Parameter,
    listed: Sequence[Any],
    fitting: Sequence[Any],
    calls: Sequence[tuple[Call, Result]],
) -> list[Any]:
    """The values for a parameter that calls returned beyond their own arguments; of a list, every
    element. Of those that its name does not speak of (`fitting`) only texts that do not occur
    everywhere, none for what is invented, nor for what a tool makes: a new bike's model is no stand
    that was seen."""
    if is_changed(tool, parameter.name):
        return []
    further = () if _is_invented(tool, parameter) or MAKING & _parts(tool.name) else fitting
    outputs = [Output((0, 0), *made) for made in calls]
    return [
        value
        for value in (*listed, *(value for value in further if isinstance(value, (str, list))))
        if any(output.brought(parameter.name, value) for output in outputs)
    ]


def _examples(name: str, schema: JsonMapping) -> list[Any]:
    drawn = [Sampler(Random(number)).value(name, schema) for number in range(4 * EXAMPLES)]
    return unique(drawn)[:EXAMPLES]


def _leaves(
    value: Any, place: tuple[str, ...], schema: JsonMapping | None = None, *, record: bool = True
) -> Iterator[tuple[frozenset[str], Any, bool]]:
    """(words of the two nearest names, value, whether it is a key) for every leaf of a JSON value
    and every key of a map; keys that are numbers as such, fields of a record not. An object is a
    record where `schema` declares `properties`, a map where it declares `additionalProperties`
    alone; else its values make the guess."""
    words = frozenset().union(*(_parts(name) for name in place[-2:]))
    schema = schema or {}
    if isinstance(value, Mapping):
        fields = schema.get("properties", {})
        entries = schema.get("additionalProperties")
        keyed = not fields and (isinstance(entries, Mapping) or is_map(value, record=record))
        for key, item in value.items():
            if keyed:
                yield words, key, True
                if key.isdecimal():
                    yield words, int(key), True
            inner = fields.get(key, entries)
            yield from _leaves(
                item, (*place, key), inner if isinstance(inner, Mapping) else None, record=keyed
            )
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item, place, schema.get("items"))
    elif value is not None and not isinstance(value, bool):
        yield words, value, False


@cache
def _parts(name: str) -> frozenset[str]:
    """The words of a name, in the singular: `note_ids` and `NoteID` have `note` and `id`."""
    words = (word.lower() for word in PART.findall(name))
    return frozenset(word[:-1] if len(word) > 2 and word.endswith("s") else word for word in words)


def padded(
    environment: Environment, draft: Draft, spoken: frozenset[str], rng: Random
) -> JsonObject:
    """The draft's state with more entries in its largest collections, copies of those that are
    there under new keys, as far as the environment and the draft's calls allow. `spoken`: the
    words, in small letters, of texts and arguments. Raises InfrastructureError when the machinery
    broke."""
    state = copy.deepcopy(dict(draft.state))
    meant = frozenset(map(stem, spoken))
    maps = [
        (path, value)
        for path, value in walk(state)
        if isinstance(value, Mapping) and "*" not in path
    ]
    filled = 0
    maps.sort(key=lambda held: (_are_settings(held[1]), -len(held[1])))
    for path, held in maps[:PADDABLE]:
        if filled and _are_settings(held):
            break  # only where nothing else can grow
        longer = copy.deepcopy(state)
        entries, before = (reduce(getitem, path, whole) for whole in (longer, state))
        words = {key: _stems(key, entry) for key, entry in entries.items()}
        # tells none from another
        shared = frozenset.intersection(*words.values()) if len(words) > 1 else frozenset()
        models = [key for key in sorted(entries) if not (words[key] - shared) & meant]
        for number in range(PADDING if models else 0):
            key = rng.choice(models)
            taken = {int(name) for name in entries if name.isdecimal()}
            new = str(max(taken) + 1) if key.isdecimal() else f"{key}_{number + 2}"
            if new not in entries and new.lower() not in spoken:
                entries[new] = _renamed(before[key], key, new)
        if longer != state and _holds(environment, draft, longer):
            state = longer
            filled += 1
        if filled == PADDED_MAPS:
            break
    return state


def _are_settings(entries: Mapping[str, Any]) -> bool:
    """Whether a map is hardly a collection: where "driver" is "locked", nobody believes in
    "driver_2", nor in another of what there is but one."""
    plain = (isinstance(held, str) and not DIGIT.search(key) for key, held in entries.items())
    return len(entries) < 2 or all(plain)


def _holds(environment: Environment, draft: Draft, state: State) -> bool:
    """Whether `state` is legal, all calls succeed there, and what later calls take their values
    from is as it was."""
    try:
        instance = environment.reset(state)
    except ValueError:
        return False
    taken = {
        flow.origin for calls in draft.turns for bound in calls for flow in bound.flows.values()
    }
    for turn, calls in enumerate(draft.turns):
        for index, bound in enumerate(calls):
            result = instance.call(bound.call)
            if result.error == "infrastructure":
                raise InfrastructureError(f"while padding, {bound.call}: {result.text}")
            if result.error is not None or (
                (turn, index) in taken and result.text != bound.result.text
            ):
                return False
    return True


def _stems(key: str, entry: Any) -> frozenset[str]:
    """The words of an entry's key and values that may say which one is meant, without their
    endings; the keys of maps in it are values, the names of a record's fields say nothing."""
    values = (
        " ".join(value) if isinstance(value, Mapping) else str(value) for _, value in walk(entry)
    )
    return frozenset(map(stem, WORD.findall(" ".join((key, *values)).lower()))) - COMMON


def _renamed(entry: Any, key: str, new: str) -> Any:
    """A copy of an entry in which its own key, where it stands among its fields, is the new one."""
    if not isinstance(entry, Mapping):
        return copy.deepcopy(entry)
    own: dict[Any, Any] = {key: new}
    if key.isdecimal():
        own[int(key)] = int(new)
    return {
        name: own[item] if isinstance(item, (str, int)) and item in own else copy.deepcopy(item)
        for name, item in entry.items()
    }
