"""An environment whose instances run in confined worker processes, behind the same seam as any
other; those of the same initial state share a worker. docs/sandbox.md says what becomes of worlds
when a process is lost.

Whatever the code raises inside, callers see BrokenEnvironment, an InfrastructureError, or what the
seam provides for: ValueError in `reset`, and Unsupported for an ability that the environment
declares it lacks.
"""

import itertools
import time
import zlib
from typing import Any

import orjson
from pydantic import TypeAdapter

from rods.calls import Call, ReadsJudged
from rods.canonical import JsonMapping, JsonObject
from rods.config import Sandbox
from rods.deadlines import WORLD_REMADE
from rods.environments.base import Features, Instance, Result, Tool, Tools
from rods.environments.workers.serving import dumps
from rods.environments.workers.worker import Confinement, Overrun, Replaced, WorkerSpec
from rods.errors import BrokenEnvironment, InfrastructureError, RodsError, Unsupported
from rods.faults import CALL_ERRORS
from rods.worlds.sandbox.host import REFUSAL, TARGET, of
from rods.worlds.sandbox.process_pool import PooledWorker, Spares

_TRIES = 5  # of one request, when its worker is lost for another's sake before it is asked
_FAILURE = 100_000  # characters of the text of a call that failed
_REPLY_BYTES = 4 << 20  # of JSON in an answer
_NAME = 1_000  # characters of an environment's name and of its hash
_TOOLS = TypeAdapter(list[tuple[str, Tool]])  # a worker may send anything
_JUDGED = TypeAdapter[ReadsJudged](ReadsJudged)
_ANSWERS = {
    "reset": type(None),
    "replay": type(None),
    "fork": type(None),
    "same": bool,
    "snapshot": dict,
}


class StateRefused(BrokenEnvironment):
    """The environment refused an initial state: a ValueError with this `text` where a world is
    first made, and the machinery's failure where one is made anew."""

    def __init__(self, factory: str, text: str) -> None:
        super().__init__(
            f"environment {factory!r} refused a state that it had taken before: {text}"
        )
        self.text = text


class Sandboxed:
    """The environment made by `factory` ("package.module:function"; "file.py:function", perhaps
    with the file's text as `source`), in so many processes with such limits as `settings` say.

    `spares` (by default as many again) wait to replace lost processes: with the environment loaded,
    or with a `source` ready to load any, so that several environments may share them. Raises
    InfrastructureError when they do not start, with what the factory raised; BrokenEnvironment
    where a `source` is at fault, or what was made is no environment.
    """

    def __init__(
        self,
        factory: str,
        confinement: Confinement,
        settings: Sandbox,
        *,
        source: str | None = None,
        spares: Spares | None = None,
    ) -> None:
        self.factory = factory
        self._generated = source is not None
        self._spares = spares or Spares(settings.workers)
        load: list[Any] = [[], "load", factory, source]
        opening, loading = (load, None) if source is None else ([[], "prepare"], load)
        spec = WorkerSpec(
            TARGET, settings.seconds, settings.memory_bytes, _REPLY_BYTES, opening, confinement
        )
        workers = (
            PooledWorker(spec, loading=loading, spares=self._spares)
            for _ in range(settings.workers)
        )
        self._cells = [_Cell(worker, factory) for worker in workers]
        try:
            description = self._cells[0].worker.open()
            self.name, self.hash = (of(description[key], str) for key in ("name", "hash"))
            deterministic, snapshot, fork, visible = (
                of(flag, bool) for flag in of(description["features"], list)
            )
            reads_judged = _JUDGED.validate_python(description.get("reads_judged", "asked"))
            if max(len(self.name), len(self.hash)) > _NAME:
                raise ValueError(f"a name or hash of more than {_NAME} characters")
            self._tools, self._checks = (
                dict(_TOOLS.validate_json(orjson.dumps(description.get(kind, [])), strict=True))
                for kind in ("tools", "checks")
            )
        except (ValueError, TypeError, KeyError) as error:
            raise BrokenEnvironment(f"environment {factory!r} is not one: {error}") from error
        self.features = Features(deterministic, snapshot, fork, visible, reads_judged=reads_judged)
        abilities = {"snapshot": snapshot, "fork": fork, "same": visible}
        for cell in self._cells:
            cell.repeatable = deterministic
            cell.lacking = frozenset(name for name, able in abilities.items() if not able)

    def parameters(self) -> JsonMapping:
        """What a run's record says of it (rods.environments.base.parameters)."""
        if not self._generated:
            return {"kind": "python"}
        return {"kind": "generated", "file": self.name.rpartition(":")[0]}

    def tools(self) -> Tools:
        return self._tools

    def checks(self) -> Tools:
        return self._checks

    def reset(self, state: JsonMapping | None) -> "ConfinedWorld":
        content = dumps(state)
        cell = self._cells[zlib.crc32(content) % len(self._cells)]
        world = ConfinedWorld(cell, state, [])
        try:
            world._ask()
        except StateRefused as error:
            raise ValueError(error.text) from None
        return world

    def shift(self, days: int) -> None:
        """From now on the clocks of its processes are so many `days` ahead, and their environment
        variables are others: what is read of either shows."""
        for cell in self._cells:
            cell.worker.call([[], "shift", days])

    def close(self) -> None:
        for cell in self._cells:
            cell.worker.close()
        self._spares.close()


class _Cell:
    """One worker, and the numbers of the worlds in it that are no longer referenced here."""

    def __init__(self, worker: PooledWorker, factory: str) -> None:
        self.worker = worker
        self.factory = factory
        self.repeatable = True
        # requests that the environment declares it cannot answer
        self.lacking: frozenset[str] = frozenset()
        self.gone: list[int] = []
        self.living: set[int] = set()  # worlds that were made, and may be among the `gone`
        self.numbers = itertools.count()
        worker.held = self._held

    def ask(
        self, generation: int, until: float, *request: Any, seconds: float | None = None
    ) -> Any:
        """Raises Replaced, Unsupported, StateRefused (a refused state), BrokenEnvironment, or
        InfrastructureError where the process cannot be started or was killed from outside."""
        gone: list[int] = []
        while self.gone:
            gone.append(self.gone.pop())
        self.living.difference_update(gone)
        do = request[0]
        try:
            answer = self.worker.call(
                [gone, *request], generation=generation, seconds=seconds, until=until
            )
        except Overrun as error:
            raise BrokenEnvironment(
                f"environment {self.factory!r}: {error} ({error.kind})"
            ) from error
        except RuntimeError as error:
            raise BrokenEnvironment(f"environment {self.factory!r} raised {error}") from error
        if do == "call" or type(answer) is _ANSWERS[do]:
            return answer
        if (
            type(answer) is list
            and len(answer) == 1
            and type(answer[0]) is str
            and len(answer[0]) <= REFUSAL
        ):
            raise self._refusal(do, answer[0])
        raise self.disbelieve(do)

    def _held(self) -> bool:
        """Whether a world would be lost with the process."""
        return not self.repeatable and not self.living.issubset(self.gone)

    def _refusal(self, do: str, text: str) -> RodsError:
        """An honest `host` refuses nothing else than the first two; but its process is that of
        foreign code."""
        if do == "reset":
            return StateRefused(self.factory, text)
        if do in self.lacking:
            return Unsupported(text)
        return BrokenEnvironment(f"environment {self.factory!r} refused {do!r}: {text}")

    def disbelieve(self, do: str) -> BrokenEnvironment:
        """The error of an answer that is not what it should be. Whatever else this process says is
        not believed."""
        self.worker.discard(self.worker.generation)
        return BrokenEnvironment(
            f"environment {self.factory!r} gave something else than the answer to {do!r}"
        )


class ConfinedWorld:
    """One episode's world (`Instance`), known to its worker by a number."""

    __slots__ = ("_calls", "_cell", "_generation", "_number", "_state")

    def __init__(self, cell: _Cell, state: JsonMapping | None, calls: list[list[Any]]) -> None:
        self._cell = cell
        self._state = state
        self._calls = calls
        self._number = next(cell.numbers)
        self._generation = -1  # not made yet

    def __del__(self) -> None:
        self._cell.gone.append(self._number)

    def call(self, call: Call) -> Result:
        with self._cell.worker.turn:
            answer = self._ask("call", self._number, call.name, call.arguments)
            if type(answer) is list and 1 <= len(answer) <= 3:
                text, value, error = (*answer, None, None)[:3]
                valid = type(error) is str and error in CALL_ERRORS
                if type(text) is str and (error is None or (valid and len(text) <= _FAILURE)):
                    self._calls.append([call.name, call.arguments])
                    return Result(text, value, error)
            raise self._cell.disbelieve("call")

    def snapshot(self) -> JsonObject:
        state: JsonObject = self._ask("snapshot", self._number)
        return state

    def fork(self) -> "ConfinedWorld":
        fresh = ConfinedWorld(self._cell, self._state, self._calls.copy())
        with self._cell.worker.turn:
            self._ask("fork", self._number, fresh._number)
            fresh._generation = self._generation
            self._cell.living.add(fresh._number)
        return fresh

    def same_state(self, other: Instance) -> bool:
        if not isinstance(other, ConfinedWorld) or other._cell.factory != self._cell.factory:
            return False
        if other._cell is not self._cell:  # only worlds in one process can be compared
            other = ConfinedWorld(self._cell, other._state, other._calls.copy())
        return self._ask("same", self._number, other._number, beside=other) is True

    def _ask(self, *request: Any, beside: "ConfinedWorld | None" = None) -> Any:
        """The answer to `request`, if any is made, once this world (and the one `beside` it) is
        there. Takes `seconds`, and where processes have to be replaced and worlds made anew, at
        most deadlines.WORLD_REMADE more; what other requests to the same process take before it is
        its turn is not counted."""
        cell = self._cell
        with cell.worker.turn:
            until = time.monotonic() + cell.worker.spec.seconds + WORLD_REMADE
            for _ in range(_TRIES):
                try:
                    for world in (self, beside):
                        if world is not None and world._generation != cell.worker.generation:
                            world._remake(until)
                    return cell.ask(self._generation, until, *request) if request else None
                except Replaced:
                    continue
        raise InfrastructureError("worker processes were replaced again and again")

    def _remake(self, until: float) -> None:
        """Makes the world, or makes it anew after its worker was replaced: from its state, and the
        calls that it has lived through. Raises Replaced, and StateRefused for an illegal state."""
        cell = self._cell
        if self._generation >= 0 and not cell.repeatable:
            raise InfrastructureError(
                f"environment {cell.factory!r}: a world was lost with its worker process"
            )
        generation = cell.worker.generation
        cell.ask(generation, until, "reset", self._number, self._state)
        if self._calls:
            patience = min(cell.worker.spec.seconds * (1 + len(self._calls)), WORLD_REMADE)
            cell.ask(generation, until, "replay", self._number, self._calls, seconds=patience)
        self._generation = generation
        cell.living.add(self._number)
