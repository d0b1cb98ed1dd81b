"""What all probes share: guarded and timed calls, and the faults and notes they have found so far."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from rods.analysis.schemas import Checker
from rods.calls import Call
from rods.canonical import canonical
from rods.checking.report import Fault
from rods.deadlines import SLOW_CALL
from rods.environments.base import Environment, Instance, Result
from rods.errors import InfrastructureError, Unsupported
from rods.faults import CALL_ERRORS

T = TypeVar("T")


class Probe:
    """Asks one environment; whatever it does wrong becomes a fault, once each, and never an exception."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.faults: list[Fault] = []
        self.notes: list[str] = []
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.reached: set[str] = set()
        self.raises: set[tuple[str, type[Exception]]] = set()
        self.lenient: set[str] = set()  # arguments for which a wrong type is accepted
        self.results: Mapping[str, Checker] = {}  # of the tools that declare a schema of their results
        self.calls = 0
        self.comparable = False  # two runs of the same calls were seen to agree

    def fault(self, where: str, field: str, what: str, remedy: str) -> None:
        fault = Fault(where, field, what, remedy)
        if fault not in self.faults:
            self.faults.append(fault)

    def raised(self, tool: str, error: Exception, on: str) -> None:
        """A tool raised: reported once a tool and kind of exception, with the first call that did it."""
        if (tool, type(error)) not in self.raises:
            self.raises.add((tool, type(error)))
            broke = isinstance(error, InfrastructureError)
            remedy = "mend the machinery" if broke else "return a Result with an error instead"
            self.fault(tool, "", f"raised {type(error).__name__} ({str(error)[:120]}) on {on}", remedy)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    @contextmanager
    def guarded(self, where: str, field: str = "") -> Iterator[None]:
        """Turns what user code raises into a fault. The rest of the block is lost."""
        try:
            yield
        except Unsupported as error:
            self.fault(where, field, f"raised Unsupported ({error}) for a declared ability", "declare it in Features")
        except Exception as error:  # noqa: BLE001 - the code under probe may raise anything; it is reported
            self.fault(where, field, f"raised {type(error).__name__}: {error}", "return a Result with an error instead")

    def timed(self, what: str, action: Callable[[], T]) -> T:
        start = time.perf_counter()
        try:
            return action()
        finally:
            self.seconds[what].append(time.perf_counter() - start)

    def reset(self, state: Any) -> Instance:
        return self.timed("reset", lambda: self.environment.reset(state))

    def call(self, instance: Instance, call: Call) -> Result:
        """The result of a call, checked for its form; a stand-in with the error `infrastructure` when it raised."""
        self.calls += 1
        try:
            result = self.timed("call", lambda: instance.call(call))
        except Exception as error:  # noqa: BLE001 - the code under probe may raise anything; it is reported
            self.raised(call.name, error, _short(call))
            return Result("", error="infrastructure")
        if self.seconds["call"][-1] > SLOW_CALL:
            what = f"took {self.seconds['call'][-1]:.1f} s for {_short(call)}"
            self.fault(call.name, "", what, "tighten the bounds of its arguments, or limit it in a worker")
        self._form(call, result)
        if result.error is None:
            self.reached.add(call.name)
        return result

    def _form(self, call: Call, result: Result) -> None:
        if not isinstance(result, Result) or not isinstance(result.text, str):
            self.fault(call.name, "", f"returned {result!r:.80} for {_short(call)}", "return a Result with a text")
            return
        if result.error is not None and result.error not in CALL_ERRORS:
            self.fault(call.name, "error", f"is {result.error!r}", f"use one of {', '.join(sorted(CALL_ERRORS))}")
        try:
            canonical(result.value)
        except ValueError as error:
            self.fault(call.name, "value", f"is {error}", "return plain JSON values")
        declared = self.results.get(call.name)
        if declared is not None and result.error is None and (what := declared.fault(result.value)):
            told = f"{what} for {_short(call)}, against the schema that the tool declares"
            self.fault(call.name, "result", told, "correct the schema, or the result")

    def replies(self, instance: Instance, calls: Sequence[Call]) -> list[tuple[str, str | None]]:
        """What two runs must have in common: text and error of each call."""
        return [(result.text, result.error) for result in (self.call(instance, call) for call in calls)]


def _short(call: Call) -> str:
    text = str(call)
    return text if len(text) <= 120 else text[:117] + "…"
