"""The prompts and tool documents of BFCL's own harness, made by its own functions: the few that make prompts are taken,
by name, out of the wheel whose hash is checked, and run under private names. The rest (which evaluates model text, and
imports dozens of packages) is left where it is."""

from __future__ import annotations
import __future__

import ast
import copy
import json
import re
import types
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rods.worlds.bfcl import wheel
from rods.worlds.bfcl.classes import MODULES

_PROMPTING = (
    "_cast_to_openai_type",
    "convert_to_tool",
    "formulate_system_prompt",
    "parse_prompt_variation_params",
    "format_function_doc",
    "format_execution_results_prompting",
)
_CATEGORY = "multi_turn_base"  # all four have the same hint in their documents


class Harness:
    """The prompts of one wheel. `steps` is how many replies a turn may have: one more than the limit of steps with
    calls, after which the harness ends the episode."""

    def __init__(self, file: Path) -> None:
        constants = _all(file, "constants/default_prompts.py")
        enums = _all(file, "constants/enums.py")
        mapping = _all(file, "constants/type_mappings.py")["GORILLA_TO_OPENAPI"]
        modules: dict[str, Any] = {"copy": copy, "json": json, "re": re}
        self._made = _some(file, "model_handler/utils.py", _PROMPTING, modules | constants | enums | {_MAP: mapping})
        self._style = enums["ModelStyle"].OPENAI_COMPLETIONS
        self._mapping = mapping
        self._format: str = constants["DEFAULT_SYSTEM_PROMPT_FORMAT"]
        self._returned: str = constants["DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_PROMPTING"]
        self.returned_native: str = constants["DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC"]
        self.steps: int = constants["MAXIMUM_STEP_LIMIT"] + 1
        self._raw = {
            document["name"]: document
            for module in MODULES.values()
            for document in wheel.read_json_lines(file, f"data/multi_turn_func_doc/{module}.json")
        }
        hint = _some(
            file,
            "utils.py",
            ("is_java", "is_js", "_get_language_specific_hint", "_func_doc_language_specific_pre_processing"),
            {},
        )
        hinted = hint["_func_doc_language_specific_pre_processing"](copy.deepcopy(list(self._raw.values())), _CATEGORY)
        self._hinted = {document["name"]: document for document in hinted}

    def documents(self, names: Sequence[str], *, returned: bool = False) -> list[dict[str, Any]]:
        """The tool documents as the harness shows them; those that return later lack a hint that the others have."""
        source = self._raw if returned else self._hinted
        return [source[name] for name in names]

    def system_prompt(self, documents: Sequence[Any]) -> str:
        """The system prompt of prompt mode, in the leaderboard's default format."""
        text: str = self._made["formulate_system_prompt"](
            format_sensitivity_config=self._format, functions=list(documents)
        )
        return text

    def returned_prompt(self, documents: Sequence[Any]) -> str:
        """What the user says in prompt mode when held-out tools return."""
        return self._returned.format(functions=list(documents))

    def results_prompt(self, strings: Sequence[str], results: Sequence[str]) -> str:
        """The message in which prompt mode shows results beside the call strings."""
        text: str = self._made["format_execution_results_prompting"](
            {}, list(results), {"model_responses_decoded": list(strings)}
        )
        return text

    def native_tools(self, documents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The documents as OpenAI-style tools, with BFCL's types converted as the harness does."""
        tools: list[dict[str, Any]] = self._made["convert_to_tool"](list(documents), self._mapping, self._style)
        return tools


_MAP = "GORILLA_TO_OPENAPI"


@cache
def harness(file: Path) -> Harness:
    """The harness of the wheel `file` (a path from `wheel.path`), made once a process."""
    return Harness(file)


def _all(file: Path, member: str) -> dict[str, Any]:
    """The names of a whole module that imports nothing but the standard library."""
    return _run(ast.parse(wheel.read(file, member)), file, member, {})


def _some(file: Path, member: str, names: Sequence[str], known: Mapping[str, Any]) -> dict[str, Any]:
    """Functions of a module, by name, with `known` as all that they can refer to."""
    tree = ast.parse(wheel.read(file, member))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    return _run(tree, file, member, known)


def _run(tree: ast.Module, file: Path, member: str, known: Mapping[str, Any]) -> dict[str, Any]:
    module = types.ModuleType(f"{__name__}.{Path(member).stem}")
    vars(module).update(known)
    flags = __future__.annotations.compiler_flag  # annotations name what was left behind
    code = compile(tree, f"{file}/bfcl_eval/{member}", "exec", flags=flags, dont_inherit=True)
    exec(code, vars(module))  # noqa: S102 the wheel's hash is checked
    return vars(module)
