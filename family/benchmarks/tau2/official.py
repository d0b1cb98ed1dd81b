"""τ²-bench's own code in a process of its own: tasks, prompts, tools and scores of its domains.

The wheel is unpacked into a temporary folder for as long as its modules and data are read. What
they import at their top and need neither for tools nor for scores (litellm, loguru and others) is
not installed: stand-ins that do nothing are imported in their place; that of toml reads. A database
is read once, and each conversation has its own view of it, or its own copy."""

import copy
import importlib
import json
import sys
import tempfile
import tomllib
import zipfile
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from rods.canonical import JsonMapping, JsonObject
from rods.family.benchmarks.stand_ins import stand_in

# What the modules import at their top.
STAND_INS = (
    *("addict", "deepdiff", "dotenv", "loguru", "pandas", "toml"),
    *("litellm", "litellm.caching", "litellm.caching.caching", "litellm.main"),
)
# of the wheel: large, and never read
_LEFT_OUT = ("telecom/tasks", ".png", ".pdf", ".dot", "/gym/", "/scripts/")
_TELECOM = "tau2/data/tau2/domains/telecom/"
# what `Official.scored` calls the parts of a reward
_PARTS = {
    "DB": "database",
    "COMMUNICATE": "communicated",
    "ENV_ASSERTION": "asserted",
    "ACTION": "called",
}
_KEPT = 256  # conversations whose worlds are kept; another's is made anew by its calls
_open: "list[Official]" = []


class Copied(JsonObject):
    """The entries of a table that all conversations begin with; one is copied when it is first
    asked for by its key. What goes through all of them only reads, in the tools of this version."""

    def __init__(self, base: JsonMapping) -> None:
        super().__init__(base)
        self.base = base

    def __getitem__(self, key: str) -> Any:
        entry = super().__getitem__(key)
        if entry is self.base.get(key):
            entry = self[key] = copy.deepcopy(entry)
        return entry


class Domain:
    """One domain: its database and how a conversation gets its own."""

    def __init__(self, environment: Any, tasks: Sequence[Any]) -> None:
        self._environment = environment
        self.tasks = {task.id: task for task in tasks}
        self._tables: JsonObject = dict(environment.tools.db)
        self._database = type(environment.tools.db)
        self._tools = type(environment.tools)

    def environment(self, solo_mode: bool = False) -> Any:
        """A fresh one, as the package's own constructor of this name makes it."""
        if self._environment.user_tools:  # the tables are short
            return copy.deepcopy(self._environment)
        fresh = copy.copy(self._environment)
        tables = {name: Copied(base) for name, base in self._tables.items()}
        fresh.tools = self._tools(self._database.model_construct(**tables))
        fresh.tools.get_db_hash = lambda: self._hash(fresh.tools.db)
        return fresh

    def begun(self, task: str) -> Any:
        """The one in which a conversation about `task` begins."""
        world = self.environment()
        if state := self.tasks[task].initial_state:
            world.set_state(state.initialization_data, state.initialization_actions, [])
        return world

    def _hash(self, database: Any) -> str:
        """The package's hash of a database: of the same text, of which untouched entries are
        written once."""
        tables = []
        for name, base in sorted(self._tables.items()):
            table = getattr(database, name)
            base_texts = self._texts[name]
            own = {
                key: _written(entry) for key, entry in table.items() if entry is not base.get(key)
            }
            texts = {**{key: base_texts[key] for key in table if key not in own}, **own}
            tables.append(
                f"{json.dumps(name)}: "
                f"{{{', '.join(f'{json.dumps(key)}: {texts[key]}' for key in sorted(texts))}}}"
            )
        return sha256(f"{{{', '.join(tables)}}}".encode()).hexdigest()

    @cached_property
    def _texts(self) -> dict[str, dict[str, str]]:
        return {
            name: {key: _written(entry) for key, entry in base.items()}
            for name, base in self._tables.items()
        }


def _written(entry: Any) -> str:
    return json.dumps(entry.model_dump(), sort_keys=True, default=str)


def imports() -> None:
    """Puts in place what the modules import at their top."""
    stand_in(*STAND_INS)
    vars(sys.modules["toml"])["load"] = lambda file: tomllib.loads(file.read())


class Official:
    """The modules of the wheel and its domains, ready to answer."""

    def __init__(self, wheel: str, domains: Sequence[str]) -> None:
        imports()
        with tempfile.TemporaryDirectory(prefix="rods-tau2-") as folder:
            with zipfile.ZipFile(wheel) as archive:
                names = [name for name in archive.namelist() if name.startswith("tau2/")]
                archive.extractall(
                    folder, [name for name in names if not any(part in name for part in _LEFT_OUT)]
                )
                # of 2,285, which take seconds
                splits, tasks = (
                    json.loads(archive.read(f"{_TELECOM}{name}.json"))
                    for name in ("split_tasks", "tasks")
                )
            Path(folder, f"{_TELECOM}tasks.json").write_text(
                json.dumps([task for task in tasks if task["id"] in splits["base"]])
            )
            sys.path.insert(0, folder)
            self.evaluator = _module("evaluator.evaluator")
            self.message = _module("data_model.message")
            self.simulation = _module("data_model.simulation")
            self._registry = _module("registry").registry
            self.domains = {name: self._domain(name) for name in domains}
            self.described = self._described()
            sys.path.remove(folder)
        # by conversation: calls so far, and its world
        self._worlds: OrderedDict[str, tuple[int, Any]] = OrderedDict()

    def _domain(self, name: str) -> Domain:
        environment = self._registry.get_env_constructor(name)()
        domain = Domain(environment, self._registry.get_tasks_loader(name)("base"))
        self._registry._domains[name] = domain.environment  # for scores
        return domain

    def _described(self) -> JsonObject:
        agents, users, config = map(_module, ("agent.llm_agent", "user.user_simulator", "config"))
        described: JsonObject = {}
        for name, domain in self.domains.items():
            world = domain.environment()
            tools = world.get_tools()
            user_tools = world.get_user_tools() if world.user_tools else None
            described[name] = {
                "system": agents.LLMAgent(tools, world.get_policy()).system_prompt,
                "tools": [tool.openai_schema["function"] for tool in tools],
                "tasks": [
                    {
                        "id": task.id,
                        "user": users.UserSimulator(
                            user_tools, str(task.user_scenario)
                        ).system_prompt,
                        "opening": task.user_scenario.instructions.reason_for_call,
                        "calls": [
                            [action.name, action.arguments]
                            for action in task.evaluation_criteria.actions or ()
                        ],
                        "told": task.evaluation_criteria.communicate_info or [],
                    }
                    for task in domain.tasks.values()
                ],
            }
            if user_tools:
                described[name]["user_tools"] = [tool.openai_schema for tool in user_tools]
        return {
            "domains": described,
            "greeting": _module("orchestrator.orchestrator").DEFAULT_FIRST_AGENT_MESSAGE.content,
            "stops": [users.STOP, users.TRANSFER, users.OUT_OF_SCOPE],
            "max_steps": config.DEFAULT_MAX_STEPS,
            "max_errors": config.DEFAULT_MAX_ERRORS,
            "user_temperature": config.DEFAULT_LLM_TEMPERATURE_USER,
        }

    def called(self, request: JsonMapping) -> list[list[Any]]:
        """What `calls` of the `requestor` give in the world of a conversation about `task`, in
        which those `before` were made: [text, failed] each."""
        name = request["conversation"]
        before = request["before"]
        count, world = self._worlds.pop(name, (-1, None))
        if count != len(before):  # it is new, or another process had it
            world = self.domains[request["domain"]].begun(request["task"])
            for earlier in before:
                self._answers(world, earlier)
        answers = self._answers(world, request)
        self._worlds[name] = len(before) + 1, world
        if len(self._worlds) > _KEPT:
            self._worlds.popitem(last=False)
        return answers

    def _answers(self, world: Any, made: JsonMapping) -> list[list[Any]]:
        answers = [
            world.get_response(
                self.message.ToolCall(name=name, arguments=arguments, requestor=made["requestor"])
            )
            for name, arguments in made["calls"]
        ]
        world.sync_tools()  # as behind each step there, also where the last call failed
        return [[answer.content, answer.error] for answer in answers]

    def scored(self, request: JsonMapping) -> dict[str, float]:
        """The package's reward for `messages`, and those parts of it that count: the database and
        what had to be said, or what is asserted of the world and the calls."""
        domain = request["domain"]
        task = self.domains[domain].tasks[request["task"]]
        run = self.simulation.SimulationRun(
            id="",
            task_id=task.id,
            start_time="",
            end_time="",
            duration=0.0,
            termination_reason=request["end"],
            messages=request["messages"],
        )
        earned = self.evaluator.evaluate_simulation(
            run, task, self.evaluator.EvaluationType.ALL, False, domain
        )
        given = earned.reward_breakdown or {}
        parts = {
            _PARTS[kind]: given.get(kind, 0.0) for kind in task.evaluation_criteria.reward_basis
        }
        return {"official": earned.reward, **parts}


def _module(name: str) -> Any:
    return importlib.import_module(f"tau2.{name}")


def answer(request: JsonMapping) -> Any:
    """{"do": "open", "wheel", "domains"} → what there is to play; then "call" and "score"."""
    if request["do"] == "open":
        _open.append(Official(request["wheel"], request["domains"]))
        return _open[-1].described
    official = _open[-1]
    return official.called(request) if request["do"] == "call" else official.scored(request)
