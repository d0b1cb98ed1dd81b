"""An environment that can neither be copied nor looked into, as one that can: a copy is a fresh
world and the calls so far, and two worlds are equal when declared read-only probes answer alike in
both.

`Replayed(inner, …)` needs no more of an instance of `inner` than `call`, and declarations:

- `reads`, tools that change nothing: they are not repeated, and a copy asks its origin's world.
- `probes`, calls of such tools: what they answer is the state.
- `minted`, patterns of values that a server makes up anew in each world (handles, ids), each with
  one group. Outside they bear a name that says where they came from: the call, which of its
  repetitions, and the place in its answer.
- `fails`, what a failure looks like that is told as an ordinary result (`failing`).

Where a repeated call answers otherwise than it did, that is a BrokenEnvironment: such a world is no
copy."""

import copy
import hashlib
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import orjson

from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, canonical, content_id, frozen
from rods.environments.base import (
    MOST_ANSWERED,
    Environment,
    Instance,
    Result,
    Tools,
    checks,
    parameters,
    value_of,
)
from rods.environments.failing import Rule, failed
from rods.errors import BrokenEnvironment, InfrastructureError, Unsupported
from rods.faults import BREAKS_DOCUMENT
from rods.model_json import mapped

T = TypeVar("T")
BEHAVIOUR = 2  # of this module; part of an environment's hash
CALLS = "calls"  # the key of a state that holds what its world has lived through
# characters of a minted value: a shorter one would be found in what has nothing to do with it
SHORTEST = 4
_DIGITS = 8  # of a name


class Lost(InfrastructureError):
    """What a world of the inner environment raises that was given up to make room for another,
    before it does anything: whoever still needs it makes it again."""


class Replayed:
    """The `Environment` made of `inner`. `probes`: None where nothing is known that shows the
    state; none at all for a server without any. An argument of a probe that is "{kind}" stands for
    every value minted by that pattern."""

    def __init__(
        self,
        inner: Environment,
        *,
        reads: Iterable[str] = (),
        probes: Sequence[Call] | None = None,
        minted: Mapping[str, str] | None = None,
        fails: Sequence[Rule] | None = None,
    ) -> None:
        self.inner = inner
        self.fails = fails
        self.reads = frozenset(reads) | checks(inner).keys()
        self.probes = None if probes is None else tuple(probes)
        self.minted = {kind: re.compile(pattern) for kind, pattern in (minted or {}).items()}
        self.name = inner.name
        asked = None if self.probes is None else [probe.as_json() for probe in self.probes]
        declared: JsonObject = {
            "reads": sorted(self.reads),
            "probes": asked,
            "minted": dict(minted or {}),
        }
        if fails:
            declared["fails"] = fails
        self.hash = content_id({"inner": inner.hash, **declared, "behaviour": BEHAVIOUR})
        able = inner.features.deterministic
        # or a read may be the first to show what was made up
        idle = frozenset[str]() if self.minted else self.reads
        self.features = replace(
            inner.features,
            snapshot=able,
            fork=able,
            state_visible=self.probes is not None,
            reads=idle,
        )

    def parameters(self) -> JsonMapping:
        return parameters(self.inner)

    def unbelieving(self) -> "Replayed":
        """The same, believing of no tool that it changes nothing."""
        return Replayed(
            self.inner,
            probes=self.probes,
            minted={kind: pattern.pattern for kind, pattern in self.minted.items()},
            fails=self.fails,
        )

    def tools(self) -> Tools:
        return self.inner.tools()

    def checks(self) -> Tools:
        return checks(self.inner)

    def repeated(self) -> None:
        """Raises Unsupported where calls cannot be repeated."""
        if not self.features.fork:
            raise Unsupported(f"{self.name} is not deterministic: its calls cannot be repeated")

    def reset(self, state: JsonMapping | None) -> "ReplayedWorld":
        fields = dict(state or {})
        calls = fields.pop(CALLS, [])
        if not isinstance(calls, list):
            raise ValueError(f"{CALLS!r} of a state is a list of calls")
        if calls and not self.features.fork:
            raise ValueError(f"a state with {CALLS!r} needs an environment that is deterministic")
        lived = tuple(_Lived(Call.from_json(call), None) for call in calls)
        world = ReplayedWorld(self, fields, lived, None)
        world.begin()
        return world

    def close(self) -> None:
        close: Callable[[], None] | None = getattr(self.inner, "close", None)
        if close is not None:
            close()


@frozen
class _Lived:
    """A call that a world has lived through, and a digest of what it answered (None: not known,
    nobody compares)."""

    call: Call
    digest: bytes | None


class _Names:
    """The minted values of one world, under their names."""

    def __init__(self, patterns: Mapping[str, re.Pattern[str]]) -> None:
        self._patterns = patterns
        self.real: dict[str, str] = {}  # by name
        self.kinds: dict[str, str] = {}  # of names
        self._named: dict[str, str] = {}  # by what the server calls it
        self._made: Counter[bytes] = Counter()  # equal calls so far

    def inward(self, call: Call) -> Call:
        """The call as the server knows its values."""
        return Call(call.name, _renamed(call.arguments, self.real)) if self.real else call

    def outward(self, call: Call, result: Result) -> Result:
        """What `call` (with names in it) gave, with names instead of what the server has made
        up."""
        if not self._patterns:
            return result
        origin = canonical([call.name, dict(call.arguments)])
        matches = [
            (kind, match)
            for kind, pattern in self._patterns.items()
            for match in pattern.finditer(result.text)
        ]
        minted = sorted((match.start(1), kind, match.group(1)) for kind, match in matches)
        for number, (_, kind, value) in enumerate(minted):
            if value not in self._named:
                self._name(kind, value, origin, number)
        self._made[origin] += 1
        return Result(
            _in_text(result.text, self._named), _renamed(result.value, self._named), result.error
        )

    def _name(self, kind: str, value: str, origin: bytes, number: int) -> None:
        if len(value) < SHORTEST:
            raise BrokenEnvironment(
                f"the pattern {kind!r} of minted values finds {value!r}: shorter than {SHORTEST} "
                f"characters, it cannot "
                "be told from what else is called so; leave it out of `minted`"
            )
        place = canonical([origin.decode(), self._made[origin], number])
        digest = hashlib.sha256(place).hexdigest()[:_DIGITS]
        name = (
            str(10**9 + int(digest, 16) % (9 * 10**9)) if value.isdecimal() else f"{kind}-{digest}"
        )
        self.real[name] = value
        self.kinds[name] = kind
        self._named[value] = name


def _in_text(text: str, names: Mapping[str, str]) -> str:
    """`text` with every whole word that has a name in `names` replaced."""
    if not names:
        return text
    words = "|".join(re.escape(value) for value in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<![\w-])(?:{words})(?![\w-])", lambda match: names[match.group()], text)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """A JSON value with every text and whole number replaced that has a name, inside of texts
    too."""

    def renamed(leaf: Any) -> Any:
        if isinstance(leaf, str):
            return _in_text(leaf, names)
        name = names.get(str(leaf)) if type(leaf) is int else None
        return leaf if name is None else int(name) if name.isdecimal() else name

    return mapped(value, renamed)


@dataclass(slots=True)
class _Live:
    """A world of the inner environment and what it has lived through. Copies share it until one of
    them goes on."""

    instance: Instance
    names: _Names
    fails: Sequence[Rule] | None
    lived: tuple[_Lived, ...] = ()
    lock: threading.RLock = field(default_factory=threading.RLock)

    def call(self, call: Call, names: _Names | None = None) -> Result:
        names = names or self.names
        result = _cut(self.instance.call(names.inward(call)))
        return names.outward(call, failed(self.fails, call.name, result))


class ReplayedWorld:
    """One episode's world (`Instance`): its initial state, the calls that it has lived through,
    and, while it is used, a world of the inner environment that has lived through just these."""

    __slots__ = ("_environment", "_live", "_lived", "_seen", "_state")

    def __init__(
        self,
        environment: Replayed,
        state: JsonMapping,
        lived: tuple[_Lived, ...],
        live: _Live | None,
    ) -> None:
        self._environment = environment
        self._state = state
        self._lived = lived
        self._live = live
        self._seen: bytes | None = None

    def begin(self) -> None:
        """Makes the world. Raises ValueError for an illegal state."""
        self._using(lambda live: None)

    def call(self, call: Call) -> Result:
        if call.name in self._environment.reads and not self._environment.minted:
            return self._using(lambda live: live.call(call))
        return self._using(partial(self._go_on, call))

    def _go_on(self, call: Call, live: _Live) -> Result:
        result = live.call(call)
        if result.error in BREAKS_DOCUMENT:  # it was not executed
            return result
        reads = call.name in self._environment.reads  # repeated for the names that it may have made
        live.lived = self._lived = (*self._lived, _Lived(call, None if reads else _digest(result)))
        self._seen = None
        return result

    def snapshot(self) -> JsonObject:
        self._environment.repeated()
        reads = self._environment.reads if not self._environment.minted else ()
        calls = [lived.call.as_json() for lived in self._lived if lived.call.name not in reads]
        state: JsonObject = orjson.loads(
            orjson.dumps({**self._state, CALLS: calls} if calls else self._state)
        )
        return state

    def fork(self) -> "ReplayedWorld":
        self._environment.repeated()
        twin = ReplayedWorld(self._environment, self._state, self._lived, self._live)
        # now, while this world still stands where its copy does
        if self._environment.probes is not None:
            twin._seen = self._look()
        return twin

    def same_state(self, other: Instance) -> bool:
        if self._environment.probes is None:
            raise Unsupported(
                f"{self._environment.name} declares no probes: nothing shows its state"
            )
        if (
            not isinstance(other, ReplayedWorld)
            or other._environment.hash != self._environment.hash
        ):
            return False
        return self._look() == other._look()

    def _look(self) -> bytes:
        """What the probes answer, kept until the next call."""
        if self._seen is None:
            self._seen = self.look()
        return self._seen

    def look(self) -> bytes:
        """What the probes answer now, and what else shows the state."""
        return self._using(self._probed)

    def unseen(self) -> str:
        """Says what its calls have left that no comparison looks at, where its world can tell."""
        return self._using(lambda live: getattr(live.instance, "unseen", str)())

    def shown(self) -> JsonObject:
        """What the probes, and the reads that need no argument, answer now, by their calls, and
        some paths of the world, where the inner environment can tell them."""
        environment = self._environment
        bare = [
            Call(name, {})
            for name, tool in environment.tools().items()
            if name in environment.reads and not any(each.required for each in tool.parameters)
        ]

        def asked(live: _Live) -> JsonObject:
            names = copy.deepcopy(live.names)
            answers = [
                *self._answers(live, names),
                *((call, live.call(call, names)) for call in bare),
            ]
            return {str(call): value_of(said) for call, said in answers if said.error is None}

        paths = getattr(environment.inner, "places", lambda state: ())(self._state)
        return {**self._using(asked), "paths": paths}

    def _answers(self, live: _Live, names: _Names) -> Iterator[tuple[Call, Result]]:
        seen = ""
        for probe in self._environment.probes or ():
            for call in _each(probe, names.kinds, seen):
                result = live.call(call, names)
                seen += result.text
                # or all states would be alike
                if result.error in ("infrastructure", "unknown_tool"):
                    raise InfrastructureError(
                        f"the probe {call} could not be carried out: {result.text[:200]}"
                    )
                yield call, result

    def _probed(self, live: _Live) -> bytes:
        names = copy.deepcopy(live.names)  # what a probe is the first to show gets no name for good
        answers = [
            [str(call), result.text, result.error] for call, result in self._answers(live, names)
        ]
        look: Callable[[], Any] | None = getattr(live.instance, "look", None)
        shown = canonical([answers, _renamed(look(), names._named) if look is not None else None])
        # by their places here: another way to the same state has named them by other calls
        text = shown.decode()
        places = sorted((name for name in names.kinds if name in text), key=text.find)
        kinds = {name: f"{names.kinds[name]}#{place}" for place, name in enumerate(places)}
        return _in_text(text, kinds).encode()

    def _using(self, act: Callable[[_Live], T]) -> T:
        """What `act` gives with a world that stands where this one does. One that breaks is
        gone."""
        while True:
            live = self._live
            try:
                if live is not None:
                    with live.lock:
                        if live.lived is self._lived:
                            return self._guarded(act, live)
                self._live = self._again()
            except Lost:  # it made room for another; nothing has happened in it
                continue

    def _guarded(self, act: Callable[[_Live], T], live: _Live) -> T:
        try:
            return act(live)
        except BaseException as error:
            # nobody's history, whatever was carried out: who shares it makes a world of its own
            live.lived = (_BROKEN,)
            if isinstance(error, InfrastructureError) or not isinstance(error, Exception):
                raise
            what = f"what it answers cannot be read ({type(error).__name__})"
            raise InfrastructureError(f"{self._environment.name}: {what}") from error

    def _again(self) -> _Live:
        """A fresh world that has lived through the calls of this one. Raises ValueError for an
        illegal state, BrokenEnvironment where a call answers otherwise than it did."""
        environment = self._environment
        if self._lived and not environment.features.fork:
            raise InfrastructureError(
                f"a world of {environment.name} was lost, and its calls cannot be repeated"
            )
        inner = environment.inner.reset(self._state or None)
        live = _Live(inner, _Names(environment.minted), environment.fails)
        for lived in self._lived:
            result = live.call(lived.call)
            if lived.digest not in (None, _digest(result)):
                what = f"{lived.call} answers otherwise when it is repeated: {result.text[:200]!r}"
                raise BrokenEnvironment(f"{environment.name}: {what}")
        live.lived = self._lived
        return live


_BROKEN = _Lived(Call(""), b"")


def _cut(result: Result) -> Result:
    """`result`, of a text that is not too long for records and contexts."""
    size = len(result.text)
    if size <= MOST_ANSWERED:
        return result
    mark = f"… (cut: {size} characters, the first {MOST_ANSWERED} are shown)"
    return Result(result.text[:MOST_ANSWERED] + mark, None, result.error)


def _digest(result: Result) -> bytes:
    return hashlib.sha256(
        repr((result.text, result.error)).encode("utf-8", "surrogatepass")
    ).digest()[:16]


def _each(probe: Call, kinds: Mapping[str, str], seen: str) -> list[Call]:
    """The calls that a probe stands for: one for every name of the kind that an argument asks
    for, in the order in which probes have shown them."""
    calls = [probe]
    for key, value in probe.arguments.items():
        if isinstance(value, str) and value[:1] + value[-1:] == "{}":
            names = sorted(name for name, kind in kinds.items() if kind == value[1:-1])
            names.sort(key=seen.find)
            calls = [
                Call(call.name, {**call.arguments, key: name}) for call in calls for name in names
            ]
    return calls
