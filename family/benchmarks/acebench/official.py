"""ACEBench's agents by evalscope's own code in a process of its own: prompts, the loop with the
simulated APIs, and scores.

Two folders of the wheel are unpacked into a temporary folder for as long as their modules are
imported; what these import of the rest of evalscope is not installed, and stood in for. An agent's
episode is the package's loop, run from its beginning with what policy and user have said so far,
until it asks one of them for more."""

import hashlib
import importlib
import json
import os
import sys
import tempfile
import types
import warnings
import zipfile
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rods.canonical import JsonMapping, JsonObject
from rods.family.benchmarks.stand_ins import stand_in

OPENING = "\0"  # stands for the user's first text in the policy's first prompt
_UNPACKED = ("evalscope/benchmarks/acebench/", "evalscope/third_party/acebench/")
_STAND_INS = (
    *(f"api.{name}" for name in ("agent", "benchmark", "dataset", "evaluator", "messages")),
    *("api.metric", "api.model", "api.registry", "constants", "report", "utils.logger"),
)
_ROUTED = 1024  # texts of which it is remembered whether they have calls
_open: "list[Official]" = []


class Asked(BaseException):
    """Somebody has to say more."""

    def __init__(self, who: str, messages: Sequence[Any]) -> None:
        super().__init__(who)
        self.who = who
        self.messages = [[message.role, message.content] for message in messages]


class Speaker:
    """A model of the package's that says the next of `texts`. Raises Asked when there is none
    left."""

    def __init__(self, name: str, texts: Sequence[str]) -> None:
        self.name = name
        self._texts = iter(texts)

    def generate(self, messages: Sequence[Any]) -> Any:
        if (text := next(self._texts, None)) is None:
            raise Asked(self.name, messages)
        return SimpleNamespace(
            completion=text, usage=None, stop_reason="stop", message=_message("assistant", text)
        )


class Trace:
    """Of the package's events: why the last one was."""

    total_usage: Any = None
    reason = ""

    def __init__(self, **about: Any) -> None:
        pass

    def add_event(self, **event: Any) -> None:
        self.reason = event["payload"].get("reason", "")


def _message(role: str, content: str, **about: Any) -> Any:
    return SimpleNamespace(role=role, content=content, id="")


def modules(wheel: str, folder: str) -> Callable[[str], Any]:
    """The wheel's modules by name, unpacked into `folder`, with stand-ins for the others that they
    import. From here on this process prints nothing: the simulated APIs do."""
    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 for as long as the process lasts
    stand_in(*(f"evalscope.{name}" for name in _STAND_INS))
    stood_for: dict[str, JsonObject] = {
        "messages": {
            f"ChatMessage{kind}": partial(_message, role)
            for kind, role in (("", ""), ("System", "system"), ("User", "user"), ("Tool", "tool"))
        },
        "agent": {"AgentTrace": Trace},
        "benchmark": {"AgentAdapter": object},
        "dataset": {"Sample": SimpleNamespace},
        "metric": {"Score": SimpleNamespace, "AggScore": SimpleNamespace},
        "registry": {"register_benchmark": lambda about: lambda kind: kind},
    }
    for name, own in stood_for.items():
        vars(sys.modules[f"evalscope.api.{name}"]).update(own)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(
            folder, [name for name in archive.namelist() if name.startswith(_UNPACKED)]
        )
    for name in ("evalscope", "evalscope.benchmarks", "evalscope.third_party"):
        package = sys.modules[name] = types.ModuleType(name)
        package.__path__ = [str(Path(folder, *name.split(".")))]
    return lambda name: importlib.import_module(f"evalscope.{name}")


class Official:
    """The modules of the wheel and the items, ready to answer."""

    def __init__(self, wheel: str, items: str, digest: str) -> None:
        warnings.simplefilter("ignore")  # of Python's parser about a policy's text
        if hashlib.sha256(content := Path(items).read_bytes()).hexdigest() != digest:
            raise ValueError(f"{items} was changed meanwhile: start again")
        with tempfile.TemporaryDirectory(prefix="rods-acebench-") as folder:
            module = modules(wheel, folder)
            names = ("acebench_adapter", "rollout", "checker", "parser", "scenarios")
            adapting, self._rollout, self._checker, self._parser, scenarios = (
                module(f"benchmarks.acebench.{name}") for name in names
            )
            for name in scenarios.CLASS_MODULE_MAPPING.values():
                module(f"third_party.acebench.en.{name}")
        # Whenever somebody has spoken all texts are looked at again.
        self._rollout._looks_like_calls = lru_cache(_ROUTED)(self._rollout._looks_like_calls)
        self._adapter = adapting.AceBenchAdapter.__new__(adapting.AceBenchAdapter)
        self._adapter.language = "en"
        samples = map(self._adapter.record_to_sample, map(json.loads, content.splitlines()))
        self._items: JsonObject = {sample.metadata["id"]: sample for sample in samples}

    def items(self) -> list[JsonObject]:
        """{"id", "kind", "question", "calls", "tools", "ahead": [who is asked, messages], as far as
        is known}."""
        return [
            {
                "id": name,
                "kind": item.subset_key,
                "question": item.metadata["question"],
                "calls": self._expected(item),
                "tools": sorted({tool["name"] for tool in item.metadata["functions"]}),
                "ahead": self._ahead(name),
            }
            for name, item in self._items.items()
        ]

    def _ahead(self, name: str) -> list[list[Any]]:
        asked = [self.next(name, [], [])]
        asked += [self.next(name, [], [OPENING])] if asked[0][0] == "user" else []
        return [answer[:2] for answer in asked]

    def next(self, name: str, policy: Sequence[str], user: Sequence[str]) -> list[Any]:
        """Who has to say something ("": nobody), what it reads, and why it ended ("": it goes
        on)."""
        try:
            _, end = self._rolled(name, policy, user)
        except Asked as asked:
            return [asked.who, asked.messages, ""]
        return ["", [], end]

    def _rolled(
        self, name: str, policy: Sequence[str], user: Sequence[str]
    ) -> tuple[JsonObject, str]:
        """What an agent has done, as the package's adapter records it, and how it ended. Raises
        Asked."""
        players = Speaker("policy", policy), self._items[name].metadata
        try:
            rolled = self._rollout.run_rollout(*players, user_model=Speaker("user", user))
        except Exception:  # noqa: BLE001 the adapter records it without a state
            return {}, "step_limit"
        end = "finished" if rolled.trace.reason else "step_limit"
        return {"process": rolled.process, "end_state": rolled.end_state}, end

    def score(self, name: str, policy: Sequence[str], user: Sequence[str]) -> dict[str, float]:
        """The package's score of an item, and the share of its milestones. An episode that is not
        over, and what the scorer breaks off at, have none."""
        try:
            done, _ = self._rolled(name, policy, user)
            state = SimpleNamespace(metadata={**self._items[name].metadata, **done})
            value = self._adapter.match_score("", "", "", state).value
        except (Asked, Exception):  # noqa: BLE001 a value that its checkers do not foresee
            return {"official": 0.0, "process": 0.0}
        return {"official": value["acc"], "process": value["process_acc"]}

    def _expected(self, item: Any) -> list[list[Any]]:
        """The calls of the item's milestones that can be read, of the first of several ways:
        [name, arguments] each."""
        stones = item.metadata["mile_stone"]
        if self._checker._is_milestone_candidates(stones):
            stones = stones[0]
        return [list(*call.items()) for stone in stones for call in self._read(str(stone).strip())]

    def _read(self, stone: str) -> list[JsonObject]:
        try:
            calls: list[JsonObject] = self._parser.decode_execution_calls(stone)
        except Exception:  # noqa: BLE001 a milestone that is no call
            return []
        return calls


def answer(request: JsonMapping) -> Any:
    """{"do": "open", "wheel", "items", "sha256"}; then "items", and "next" and "score" of an "item"
    with the texts of "policy" and "user"."""
    if request["do"] == "open":
        _open.append(Official(request["wheel"], request["items"], request["sha256"]))
        return {}
    official = _open[-1]
    if request["do"] == "items":
        return official.items()
    ask = official.next if request["do"] == "next" else official.score
    return ask(request["item"], request["policy"], request["user"])
