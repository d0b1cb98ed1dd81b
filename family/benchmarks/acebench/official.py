"""ACEBench by evalscope's own code in a process of its own: its prompts, the loop of its agents
with the simulated APIs, and its scores.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rods.family.benchmarks.stand_ins import stand_in

OPENING = "\0"  # stands for the user's first text in the policy's first prompt
DONE = "finish conversation"
NOTHING = "I cannot do that."
GO_ON = "Please go on."
_PACKAGE = "evalscope.benchmarks.acebench"
_UNPACKED = ("evalscope/benchmarks/acebench/", "evalscope/third_party/acebench/")
_STAND_INS = (
    *(
        "api.agent",
        "api.benchmark",
        "api.dataset",
        "api.evaluator",
        "api.messages",
        "api.metric",
        "api.model",
    ),
    *("api.registry", "constants", "report", "utils.logger"),
)
# What the package looks for in answers to requests that cannot be served, by category. A fault is
# another's.
_SAID = {
    "special_incomplete": "Missing necessary parameters",
    "special_error_param": "There is incorrect value",
    "special_irrelevant": "Due to the limitations of the function, I cannot solve this problem",
}
# what changes the state of each simulated API, said after an agent has done what is wanted
_HARM = (
    "[turn_on_wifi(), login_food_platform(username='Helen', password='password321'), "
    "delete_message(message_id=1), "
    "delete_message(message_id=2), delete_reminder(reminder_id=1), delete_reminder(reminder_id=2), "
    "cancel_reservation(user_id='user1', reservation_id='res_1', reason='None')]"
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
    given: dict[str, dict[str, Any]] = {
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
    for name, own in given.items():
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
        rows = [json.loads(line) for line in content.splitlines()]
        with tempfile.TemporaryDirectory(prefix="rods-acebench-") as folder:
            module = modules(wheel, folder)
            names = ("acebench_adapter", "rollout", "checker", "parser", "scenarios")
            adapting, self._rollout, self._checker, self._parser, scenarios = (
                module(f"benchmarks.acebench.{name}") for name in names
            )
            for name in scenarios.CLASS_MODULE_MAPPING.values():
                module(f"third_party.acebench.{rows[0]['language']}.{name}")
        # Whenever somebody has spoken all texts are looked at again.
        self._rollout._looks_like_calls = lru_cache(_ROUTED)(self._rollout._looks_like_calls)
        self._adapter = adapting.AceBenchAdapter.__new__(adapting.AceBenchAdapter)
        self._adapter.language = rows[0]["language"]
        self._items: dict[str, list[Any]] = {}  # the steps of a dialogue are one item
        for sample in map(self._adapter.record_to_sample, rows):
            self._items.setdefault(sample.metadata["dialogue_id"], []).append(sample)

    def _of(self, kind: str) -> Iterator[tuple[str, list[Any]]]:
        return ((name, steps) for name, steps in self._items.items() if steps[0].subset_key == kind)

    def items(self, kind: str) -> list[dict[str, Any]]:
        """{"id", "questions" and "calls" by step, "tools", "ahead": [who is asked, messages], as
        far as is known}."""
        return [
            {
                "id": name,
                "questions": [step.metadata["question"] for step in steps],
                "calls": [self._expected(step) for step in steps],
                "tools": sorted(
                    {tool["name"] for step in steps for tool in step.metadata["functions"]}
                ),
                "ahead": self._ahead(name, steps),
            }
            for name, steps in self._of(kind)
        ]

    def _ahead(self, name: str, steps: Sequence[Any]) -> list[list[Any]]:
        if not _agent(steps[0]):
            return [["policy", [[one.role, one.content] for one in step.input]] for step in steps]
        asked = [self.next(name, [], [])]
        asked += [self.next(name, [], [OPENING])] if asked[0]["asks"] == "user" else []
        return [[told["asks"], told["messages"]] for told in asked]

    def next(self, name: str, policy: Sequence[str], user: Sequence[str]) -> dict[str, Any]:
        """{"asks": who has to say something ("": nobody), "messages": what it reads, "end"}."""
        try:
            _, end = self._rolled(self._items[name][0], policy, user)
        except Asked as asked:
            return {"asks": asked.who, "messages": asked.messages, "end": ""}
        return {"asks": "", "messages": [], "end": end}

    def _rolled(
        self, step: Any, policy: Sequence[str], user: Sequence[str]
    ) -> tuple[dict[str, Any], str]:
        """What an agent has done, as the package's adapter records it, and how it ended. Raises
        Asked."""
        players = Speaker("policy", policy), step.metadata
        try:
            rolled = self._rollout.run_rollout(*players, user_model=Speaker("user", user))
        except Exception:  # noqa: BLE001 the adapter records it without a state
            return {}, "step_limit"
        end = "finished" if rolled.trace.reason else "step_limit"
        return {"process": rolled.process, "end_state": rolled.end_state}, end

    def score(self, name: str, policy: Sequence[str], user: Sequence[str]) -> dict[str, float]:
        """The package's score of an item and of its process: steps of a dialogue, milestones of an
        agent, else the same. An agent's episode that is not over, and what the scorer breaks off
        at, have none."""
        steps = self._items[name]
        if _agent(steps[0]):
            try:
                done, _ = self._rolled(steps[0], policy, user)
            except Asked:
                return {"official": 0.0, "process": 0.0}
            value = self._value(steps[0], "", done)
            return {"official": value["acc"], "process": value["process_acc"]}
        said = zip_longest(steps, policy[: len(steps)], fillvalue="")
        right = [self._value(step, text)["acc"] == 1.0 for step, text in said]
        return dict(
            zip(("official", "process"), self._checker.multi_turn_accuracy(right), strict=True)
        )

    def _value(
        self, step: Any, text: str, done: Mapping[str, Any] | None = None
    ) -> dict[str, float]:
        state = SimpleNamespace(metadata={**step.metadata, **(done or {})})
        try:
            value: dict[str, float] = self._adapter.match_score(text, text, "", state).value
        except Exception:  # noqa: BLE001 a value that its checkers do not foresee
            return {"acc": 0.0, "process_acc": 0.0}
        return value

    def _expected(self, step: Any) -> list[list[Any]]:
        """The calls of a step's ground truth, [name, arguments] each; of an agent those of its
        milestones that can be read."""
        if _agent(step):
            return [
                list(*call.items()) for stone in self._stones(step)[0] for call in self._read(stone)
            ]
        truth = step.metadata["ground_truth"]
        if step.subset_key in _SAID:
            return []
        first = truth[0] if isinstance(truth, list) else truth
        return [
            [self._checker.strip_answer_index(name), arguments] for name, arguments in first.items()
        ]

    def _stones(self, step: Any) -> list[list[str]]:
        stones = step.metadata["mile_stone"]
        every = stones if self._checker._is_milestone_candidates(stones) else [stones]
        return [[str(stone).strip() for stone in one] for one in every]

    def _read(self, stone: str) -> list[dict[str, Any]]:
        try:
            calls: list[dict[str, Any]] = self._parser.decode_execution_calls(stone)
        except Exception:  # noqa: BLE001 a milestone that is no call
            return []
        return calls

    def known(self, kind: str) -> dict[str, dict[str, Any]]:
        """By item what known policies say, and whether doing nothing is right: {"truth": texts, or
        None where those of the ground truth, played as they stand, are not what the package
        accepts, "fault", "still"}."""
        by_name = {}
        for name, steps in self._of(kind):
            truths = (
                truth
                for truth in self._truths(steps)
                if self.score(name, truth, [GO_ON])["official"] == 1
            )
            truth = next(truths, None)
            still = self.score(name, [NOTHING] * 40, [GO_ON] * 40)["official"] == 1
            if _agent(steps[0]):
                fault = [*(truth or [])[:-1], _HARM, DONE]
            else:
                fault = [_faulty(step, self._expected(step)) for step in steps]
            by_name[name] = {"truth": truth, "fault": fault, "still": still}
        return by_name

    def _truths(self, steps: Sequence[Any]) -> list[list[str]]:
        """What may be said to an item: in each step the ground truth's calls or words; of an agent
        the milestones one by one, as often as there are alternatives."""
        if _agent(steps[0]):
            return [[*stones, DONE] for stones in self._stones(steps[0])]
        return [
            [
                _said(step) if step.subset_key in _SAID else _written(self._expected(step))
                for step in steps
            ]
        ]


def _agent(step: Any) -> bool:
    return str(step.subset_key).startswith("agent")


def _written(calls: Sequence[Sequence[Any]]) -> str:
    texts = (
        f"{name}({', '.join(f'{key}={value!r}' for key, value in made.items())})"
        for name, made in calls
    )
    return f"[{', '.join(texts)}]"


def _said(step: Any) -> str:
    """The words that name what is wrong with a request."""
    truth = step.metadata["ground_truth"]
    named = truth.items() if isinstance(truth, dict) else ()
    return "; ".join(
        [
            _SAID[step.subset_key],
            *(f"{name}: {', '.join(map(str, values))}" for name, values in named),
        ]
    )


def _faulty(step: Any, calls: Sequence[Sequence[Any]]) -> str:
    """The ground truth by calls of functions that no document has; or the words of another
    category."""
    if step.subset_key in _SAID:
        other = next(text for kind, text in _SAID.items() if kind != step.subset_key)
        return _said(step).replace(_SAID[step.subset_key], other)
    return _written([[f"no_{name}", made] for name, made in calls])


def answer(request: Mapping[str, Any]) -> Any:
    """{"do": "open", "wheel", "items", "sha256"}; then "items" and "known" of a "kind", "next" and
    "score" of an "item" with the texts of "policy" and "user"."""
    if request["do"] == "open":
        _open.append(Official(request["wheel"], request["items"], request["sha256"]))
        return {}
    ask = getattr(_open[-1], request["do"])
    if request["do"] in ("items", "known"):
        return ask(request["kind"])
    return ask(request["item"], request["policy"], request["user"])
