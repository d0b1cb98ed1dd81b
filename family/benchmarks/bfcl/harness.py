"""The prompts and tool documents of BFCL's own harness, made by its own functions: the few that
make prompts are taken, by name, out of the wheel whose hash is checked, and run under private
names. The rest (which evaluates model text, and imports dozens of packages) is left where it is."""

import __future__

import ast
import copy
import json
import re
import types
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rods.canonical import JsonMapping, JsonObject
from rods.worlds.bfcl import wheel
from rods.worlds.bfcl.classes import MODULES

_PROMPTING = (
    "_cast_to_openai_type",
    "convert_to_tool",
    "formulate_system_prompt",
    "parse_prompt_variation_params",
    "format_function_doc",
    "_generate_function_doc_xml",
    "_generate_function_doc_python",
    "format_execution_results_prompting",
)
_HINTING = (
    "is_java",
    "is_js",
    "_get_language_specific_hint",
    "_func_doc_language_specific_pre_processing",
)
_CATEGORY = "multi_turn_base"  # all with tools to be called have the same hint in their documents


class Harness:
    """The prompts of one wheel, out of its `texts`. `steps` is how many replies a turn may have:
    one more than the limit of steps with calls, after which the harness ends the episode."""

    def __init__(self, file: Path) -> None:
        self.texts = taken(file, "constants/default_prompts.py")
        enums = taken(file, "constants/enums.py")
        self._mapping = taken(file, "constants/type_mappings.py")["GORILLA_TO_OPENAPI"]
        names = (
            self.texts
            | enums
            | {"copy": copy, "json": json, "re": re, "GORILLA_TO_OPENAPI": self._mapping}
        )
        self._functions = taken(file, "model_handler/utils.py", _PROMPTING, names)
        self._style = enums["ModelStyle"].OPENAI_COMPLETIONS
        self.steps: int = self.texts["MAXIMUM_STEP_LIMIT"] + 1
        self._hint = taken(file, "utils.py", _HINTING, {"json": json})[_HINTING[-1]]
        documents = [
            document
            for module in MODULES.values()
            for document in wheel.read_json_lines(file, f"data/multi_turn_func_doc/{module}.json")
        ]
        self._take(documents)

    def _take(self, documents: Sequence[JsonObject]) -> None:
        self._raw = {document["name"]: document for document in documents}
        hinted = self.hinted(documents, _CATEGORY)
        self._hinted = {document["name"]: document for document in hinted}

    def hinted(self, documents: Iterable[JsonMapping], category: str) -> list[JsonObject]:
        """The documents with the hints of a category's language."""
        hinted: list[JsonObject] = self._hint(copy.deepcopy(list(documents)), category)
        return hinted

    def of(self, documents: Sequence[JsonObject]) -> "Harness":
        """The same prompts, of these documents."""
        other = copy.copy(self)
        other._take(documents)
        return other

    def documents(self, names: Sequence[str], *, returned: bool = False) -> list[JsonObject]:
        """The tool documents as the harness shows them; those that return later lack a hint that
        the others have."""
        source = self._raw if returned else self._hinted
        return [source[name] for name in names]

    def system_prompt(self, documents: Sequence[Any]) -> str:
        """The system prompt of prompt mode, in the leaderboard's format."""
        formulate = self._functions["formulate_system_prompt"]
        form = self.texts["DEFAULT_SYSTEM_PROMPT_FORMAT"]
        return str(formulate(format_sensitivity_config=form, functions=list(documents)))

    def returned_prompt(self, documents: Sequence[Any]) -> str:
        """What the user says in prompt mode when held-out tools return."""
        text: str = self.texts["DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_PROMPTING"]
        return text.format(functions=list(documents))

    def results_prompt(self, strings: Sequence[str], results: Sequence[str]) -> str:
        """The message in which prompt mode shows results beside the call strings."""
        format_results = self._functions["format_execution_results_prompting"]
        return str(format_results({}, list(results), {"model_responses_decoded": list(strings)}))

    def native_tools(self, documents: Sequence[JsonMapping]) -> list[JsonObject]:
        """The documents as OpenAI-style tools, with BFCL's types converted as the harness does."""
        tools: list[JsonObject] = self._functions["convert_to_tool"](
            list(documents), self._mapping, self._style
        )
        return tools


def right_answers(name: str) -> JsonObject:
    """The answers of one of the wheel's files of them, by the id of the question."""
    lines = wheel.read_json_lines(wheel.path(), f"data/possible_answer/BFCL_v4_{name}.json")
    return {line["id"]: line["ground_truth"] for line in lines}


harness = cache(Harness)  # of a wheel (a path from `wheel.path`), made once a process


def taken(
    file: Path, member: str, names: Sequence[str] | None = None, context: JsonMapping | None = None
) -> JsonObject:
    """What a module of the wheel defines: functions, classes and constants by name, with `context`
    as all that they can refer to, or all of one that imports nothing but the standard library."""
    module = types.ModuleType(f"{__name__}.{Path(member).stem}")
    vars(module).update(context or {})
    # its hash is checked
    code = _code(file, member, None if names is None else tuple(names))
    exec(code, vars(module))  # noqa: S102
    return vars(module)


@cache
def _code(file: Path, member: str, names: Sequence[str] | None) -> types.CodeType:
    tree = ast.parse(wheel.read(file, member))
    if names is not None:
        tree.body = [node for node in tree.body if _name(node) in names]
    flags = __future__.annotations.compiler_flag  # annotations name what was left behind
    code: types.CodeType = compile(
        tree, f"{file}/bfcl_eval/{member}", "exec", flags=flags, dont_inherit=True
    )
    return code


def _name(node: ast.stmt) -> str | None:
    """What a statement defines."""
    match node:
        case ast.FunctionDef(name) | ast.ClassDef(name) | ast.Assign([ast.Name(name)]):
            return name
    return None
