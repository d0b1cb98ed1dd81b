"""`rods env check NAME`: does an environment keep the promises of `rods.environments.base`?

It is asked to run the same calls twice, interleaved with others, across snapshots and forks, and to
refuse what is wrong. Tasks, if given, lend their states and calls; without them calls are sampled
from the schemas. A probe can show that a promise is broken, not that it always holds: the report
says of each tool whether it was reached. One that was cut short is gone on with when it is asked
for again: what was found is kept in `user_cache` until then.
"""

import copy
import math
import re
import signal
import statistics
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar

import orjson

from rods.analysis.sampling import Sampler, illegal
from rods.analysis.schemas import Checker, tool_faults
from rods.calls import Call
from rods.canonical import (
    JsonMapping,
    JsonObject,
    canonical,
    content_id,
    keyed_random,
    only,
    present,
)
from rods.composing.catalogue import catalogue_for
from rods.composing.records import ComposeError
from rods.deadlines import ALL_CALLS, ALL_CALLS_WAITED, SLOW_CALL, WORLD_CHECKED
from rods.environments.base import Environment, Instance, Result, Tool
from rods.environments.loading import Environments
from rods.environments.replay import Replayed, ReplayedWorld
from rods.environments.workers.worker import Overrun
from rods.errors import BrokenEnvironment, InfrastructureError, Unsupported, UserError
from rods.faults import CALL_ERRORS
from rods.files import BULK, read_regular, user_cache
from rods.gates.ground_truth import replay
from rods.signals import Interrupted
from rods.tasks import Task
from rods.worlds.checking import CheckReport, Fault, soundness
from rods.worlds.checking.proposing import proposals
from rods.worlds.checking.runaway import run_python, runaways
from rods.worlds.checking.twins import Twins

SOME = 8  # names that one note lists
ROUNDS = 10  # sampled calls a tool in every state
WORLDS = 17  # that all controls together make of a state, where a copy is a world of its own
PROGRESS = 5.0  # seconds between two words about how far it is
# calls of a tool that end what serves it, before it is asked no more: each costs a start
BREAKS = 3
SLOWER = 10.0  # times what a call of another tool takes: less is the machine's
STATES = 4  # states borrowed from the given tasks, besides the empty one
# fields of a probe that outlive it; `SETS` are lists in JSON
SETS = ("reached", "refused", "raises", "lenient", "hung")
KEPT = ("done", "notes", "calls", "tried", "comparable", *SETS)
# in what a world with rules raises (rods.environments.typed)
_BROKEN_RULE = re.compile(r"(?:breaks (rule \d+|bounds): |(the rules raised) )[^\0]*")
MENDED = "mend the machinery; of a server, --without leaves the tool out"
RETURN = "return a Result with an error instead"  # of raising
State = JsonMapping | None
Reply = tuple[str, str | None]  # text and error
T = TypeVar("T")


def check_environment(
    name: str,
    environments: Environments,
    tasks: Iterable[Task] = (),
    *,
    seconds: float = WORLD_CHECKED,
    tell: Callable[[str], None] = lambda line: None,
) -> CheckReport:
    """Probes the one of the `environments` called `name`. Raises UserError when there is none of
    that name, or its factory fails.

    `tasks` must be tasks of this environment; their ground truth must hold, and its calls are
    probed with. After `seconds` it ends with what it has found, and goes on from there when it is
    called again. `tell` gets a line before it begins, where calls wait for another process, and one
    every few seconds. Only for the main thread.
    """
    began = time.monotonic()
    environment = environments.load(name)
    tasks = list(tasks)
    about = content_id([name, environment.hash, *(task.id for task in tasks)])
    kept = user_cache() / "env-check" / f"{about}.json"
    probe = Probe(environment, seconds / WORLDS)
    with suppress(FileNotFoundError, orjson.JSONDecodeError):  # a full disk has cut it
        probe.go_on(orjson.loads(read_regular(kept, BULK)))
        tell(f"goes on behind {', '.join(probe.done[-1:])}; without {kept} it begins anew")
    states = list[State]([None])
    for task in tasks:
        if task.state not in states and len(states) <= STATES:
            states.append(task.state)
    if environment.features.waits:
        tools = len(environment.tools())
        calls = ROUNDS + 1
        tell(
            f"tasks to replay: {len(tasks)}; states to try: {len(states)}, each about {WORLDS} "
            f"worlds × {tools} tools × {calls} calls, together "
            f"{len(states) * WORLDS * tools * calls:,} calls that another process answers; ends "
            f"within {seconds:g} s (--seconds)"
        )
    begun = len(probe.done)

    def tick(*_: object) -> None:
        passed = time.monotonic() - began
        tell(
            f"{probe.place}{probe.asking}: calls {probe.calls:,}, faults {len(probe.faults)}, "
            f"{passed:.0f} s"
        )
        if passed >= seconds:
            raise Interrupted(signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, tick)
    beat = seconds / math.ceil(seconds / PROGRESS)
    timed = signal.setitimer(signal.ITIMER_REAL, beat, beat)
    try:
        _probe_all(probe, name, tasks, states)
    except Interrupted as stopped:
        if stopped.number != signal.SIGALRM:
            raise
        Interrupted.latest = None
        # what does not wait is quick, and may be mended without another hash
        if environment.features.waits:
            with suppress(OSError):  # a full disk: it begins anew
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_bytes(orjson.dumps(probe.found(seconds, begun), default=list))
        probe.fault(
            name,
            "",
            f"cut short after {seconds:g} s in {probe.place}{probe.asking}: what comes behind that "
            f"was not tried",
            "call it again, and it goes on from there; or give it longer (--seconds)",
        )
    else:
        kept.unlink(missing_ok=True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timed)
        signal.signal(signal.SIGALRM, before)
    return _report(probe, name, tasks)


def _probe_all(probe: "Probe", name: str, tasks: list[Task], states: list[State]) -> None:
    environment = probe.environment
    with probe.guarded(name, "tools"):
        for tool_name, tool in environment.tools().items():
            probe.read(tool_name, tool)
    if probe.begins("the description"):
        with probe.guarded(name, "tools"):
            _identity(probe, name)
        with probe.guarded(name, "catalogue"):
            _catalogue(probe, name)
        # else nothing hangs here
        for tool_name, argument, what in () if environment.features.waits else runaways(name):
            probe.fault(
                tool_name,
                argument,
                what,
                "bound the argument, or run the tool in a worker that can be killed",
            )
    for number, task in enumerate(tasks, 1):
        if probe.begins(f"task {number} of {len(tasks)}"):
            with probe.guarded(f"task {task.id}"):
                reasons = replay(environment, task)
                for reason in reasons:
                    probe.fault(
                        f"task {task.id}",
                        "goal.calls",
                        str(reason),
                        "mend the task or the environment",
                    )
                if not reasons:
                    probe.reached |= {call.name for call in task.goal_calls}
                    probe.twins.look(environment, task, f"task {task.id}")
    for number, state in enumerate(states):
        place = f"state {number + 1} of {len(states)}"
        with probe.guarded(name, "reset" if number == 0 else "reset to a task's state"):
            if probe.begins(place):
                script(probe, state, [task for task in tasks if task.state == state], number)
            probe_state(probe, state, probe.scripts[place], place)


def probe_state(probe: "Probe", state: State, calls: list[Call], place: str = "") -> None:
    """Holds the environment to all of its promises in one state, with these calls. Controls have
    the names of the functions below."""
    for check in CONTROLS:
        probe.control = check.__name__.strip("_")
        hung = -1 if probe.begins(place, probe.control) else len(probe.hung)
        # two runs differ where a tool was given up half way: once more, without it
        while hung != len(probe.hung):
            hung = len(probe.hung)
            before = len(probe.faults)
            with probe.guarded(probe.environment.name, probe.control):
                check(probe, state, calls)
            if hung != len(probe.hung):
                probe.faults[before:] = [
                    fault for fault in probe.faults[before:] if fault.control != probe.control
                ]
    probe.control = ""


def _identity(probe: "Probe", name: str) -> None:
    environment = probe.environment
    if environment.name != name:
        probe.fault(
            name,
            "name",
            f"is {environment.name!r}",
            "give it the name that it is loaded by, tasks refer to it",
        )
    if not (isinstance(environment.hash, str) and environment.hash):
        probe.fault(name, "hash", "is empty", "hash tool schemas, data and a behaviour version")
        return
    code = """import sys
from rods.environments.loading import Environments
print("hash", Environments().load(sys.argv[1]).hash)"""
    other = run_python(code, name, seconds=120, PYTHONHASHSEED="12345")
    if f"hash {environment.hash}" not in other.stdout.splitlines():
        why = other.stdout.strip()[-200:] or other.stderr.strip()[-200:]
        probe.fault(
            name,
            "hash",
            f"is {environment.hash} here, but another process says: {why}",
            "hash contents only: no clock, no id(), no order of a set",
        )


def _catalogue(probe: "Probe", name: str) -> None:
    try:
        catalogue = catalogue_for(probe.environment)
    except ComposeError:
        probe.note(
            "no catalogue with a phrase book: only a language model can write variants of its "
            "tasks "
            '(pipeline.author = "llm"), the procedural author cannot (docs/composing.md)'
        )
        return
    faults = soundness.faults(catalogue, probe.environment)
    for what in faults:
        probe.fault(name, "catalogue", what, "docs/composing.md says what a catalogue owes")
    if faults:
        return
    worlds, dead = soundness.trials(catalogue, probe.environment)
    count = len(catalogue.recipes)
    probe.tried = f"{count - len(dead)} of {count} ran in {worlds} fresh worlds"
    for recipe, why in dead.items():
        what = f"ran in none of {soundness.TRIES} fresh worlds: {why}"
        probe.fault(
            f"recipe {recipe}",
            "",
            what,
            "mend its steps, a domain, make_state or patch, or take it out",
        )


def script(
    probe: "Probe",
    state: State,
    tasks: Sequence[Task] = (),
    random_seed: int = 0,
    rounds: int = ROUNDS,
) -> list[Call]:
    """Calls worth repeating: the tasks' own, `rounds` sampled ones of every tool that use what the
    world has shown, and one of each with its numbers at their highest. Where that takes longer than
    a world's share of the time, fewer rounds, but one at least."""
    calls = probe.scripts[probe.place] = []  # one that is cut short is better than none
    rng = keyed_random(random_seed, "env check")
    sampler = Sampler(rng)
    sampler.learn("", state)
    inner = getattr(probe.environment, "inner", None)
    sampler.learn("path", getattr(inner, "places", lambda state: ())(state))
    instance = probe.fresh(state)
    tools = list(probe.environment.tools().values())
    steps: list[Call | Tool] = [call for task in tasks[:2] for call in task.goal_calls]
    steps += [tool for _ in range(rounds) for tool in rng.sample(tools, len(tools))]
    before = sum(probe.seconds["call"])
    least = len(steps) - (rounds - 1) * len(tools)
    for number, step in enumerate([*steps, *tools]):
        if number >= least and sum(probe.seconds["call"]) - before > probe.share:
            break
        call = step if isinstance(step, Call) else sampler.call(step, highest=number >= len(steps))
        calls.append(call)
        sampler.heard(call, probe.call(instance, call))
    if isinstance(instance, ReplayedWorld) and not state and (unseen := instance.unseen()):
        probe.note(unseen)
    return calls


def _repeats(probe: "Probe", state: State, calls: list[Call]) -> None:
    """The same calls from the same state give the same results, in whatever order its keys stand;
    `reset` leaves the state that it was given alone."""
    copied = copy.deepcopy(state)
    first = probe.replies(probe.reset(copied), calls)
    if copied != state:
        probe.fault(
            "reset",
            "state",
            "is changed by the calls made after it",
            "copy the state that reset gets",
        )
    if not probe.features.deterministic:
        probe.note("declared not deterministic: results of two runs cannot be compared")
        return
    second = probe.replies(probe.fresh(state), calls)
    if (at := differs(first, second)) is not None:
        seen = calls[at]

        def differ(lived: list[Call]) -> bool:
            one, other = (probe.replies(probe.fresh(state), [*lived, seen])[-1] for _ in range(2))
            return one != other

        probe.fault(
            *_cause(calls[:at], seen, differ),
            "gave {!r} and then {!r} for the same history".format(*_apart(first[at], second[at])),
            f"remove chance and clock, {probe.apart}, or declare deterministic=False",
        )
        return
    probe.comparable = True
    turned = probe.replies(probe.reset(_reversed(state)), calls)
    if (at := differs(first, turned)) is not None:
        probe.note(
            f"{calls[at].name} answers differently when the state's keys are in another order: "
            f"keep that order"
        )


def _isolation(probe: "Probe", state: State, calls: list[Call]) -> None:
    """Two instances, used in turn, do not influence each other."""
    if not probe.comparable:
        return
    alone = probe.replies(probe.fresh(state), calls)
    first = probe.fresh(state)
    second = probe.fresh(state)
    beside = []
    for call, opposite in zip(calls, reversed(calls), strict=True):
        probe.call(second, opposite)
        beside += probe.replies(first, [call])
    if (at := differs(alone, beside)) is not None:
        seen = calls[at]
        opposite_calls = calls[: -at - 2 : -1]

        def differ(lived: list[Call]) -> bool:
            instance = probe.fresh(state)
            probe.replies(probe.fresh(state), lived)
            return probe.replies(instance, calls[: at + 1])[-1] != alone[at]

        probe.fault(
            *_cause(opposite_calls, seen, differ),
            "gave {!r} beside another instance, {!r} alone".format(*_apart(beside[at], alone[at])),
            probe.apart,
        )


def _snapshots(probe: "Probe", state: State, calls: list[Call]) -> None:
    """A snapshot changes nothing, shares no object with the world, and restores it."""
    features = probe.features
    instance = probe.fresh(state)
    if not features.snapshot:
        _refuses(probe, "snapshot", instance.snapshot)
        return
    twin = probe.fresh(state)  # lives through the same, but is never looked at
    half = len(calls) // 2
    before = probe.replies(instance, calls[:half]), probe.replies(twin, calls[:half])
    picture = probe.timed("snapshot", instance.snapshot)
    bytes_then = canonical(picture)
    if canonical(instance.snapshot()) != bytes_then:
        probe.fault(
            "snapshot", "", "differs from one taken right after it", "a snapshot changes nothing"
        )
    restored = probe.fresh(picture)
    if features.state_visible and not restored.same_state(instance):
        probe.fault(
            "snapshot",
            "",
            "reset(snapshot()) is not the same state",
            "put all state that counts into it",
        )
    _poison(picture)
    if canonical(instance.snapshot()) != bytes_then:
        probe.fault("snapshot", "", "shares objects with the living world", "return a deep copy")
        return
    after = probe.replies(instance, calls[half:]), probe.replies(twin, calls[half:])
    if probe.comparable and before[0] == before[1] and after[0] != after[1]:
        probe.fault("snapshot", "", "changes what later calls return", "a snapshot changes nothing")
    elif probe.comparable and probe.replies(restored, calls[half:]) != after[1]:
        probe.fault(
            "snapshot",
            "",
            "a restored world answers differently",
            "put all state that counts into it",
        )


def _forks(probe: "Probe", state: State, calls: list[Call]) -> None:
    """A fork is equal at first and independent from then on, and `same_state` says so."""
    features = probe.features
    instance = probe.fresh(state)
    if not features.state_visible:
        _refuses(probe, "same_state", lambda: instance.same_state(instance))
    if not features.fork:
        _refuses(probe, "fork", instance.fork)
    if not (features.fork and features.state_visible):
        probe.note("without forks and a visible state, ground-truth calls cannot be scored here")
    if not features.fork:
        return
    half = len(calls) // 2
    probe.replies(instance, calls[:half])
    fork = probe.timed("fork", instance.fork)
    spare = instance.fork()
    if features.state_visible and not (
        probe.timed("same_state", lambda: fork.same_state(instance)) and instance.same_state(fork)
    ):
        probe.fault("fork", "", "is not in the same state as its origin", "copy all state")
    elif features.state_visible and fork is instance:
        probe.fault("fork", "", "returns the instance itself", "return an independent copy")
    first = probe.replies(instance, calls[half:])
    if probe.comparable and probe.replies(fork, calls[half:]) != first:
        probe.fault("fork", "", "feels what its origin does", "copy all state deeply")
    if features.state_visible and features.snapshot and probe.comparable:
        then = spare.snapshot()
        if canonical(then) != canonical(instance.snapshot()) and spare.same_state(instance):
            probe.note(
                "same_state calls two worlds equal whose snapshots differ: make sure that this is "
                "meant"
            )


def _refusals(probe: "Probe", state: State, calls: list[Call]) -> None:
    """What is wrong is refused with the right error, and changes nothing."""
    features = probe.features
    instance = probe.fresh(state)
    probe.replies(instance, calls)
    picture = instance.snapshot() if features.snapshot else {}
    before = canonical(picture)
    stranger = probe.call(instance, Call("no_such_tool", {}))
    if stranger.error not in ("unknown_tool", "infrastructure"):
        probe.fault(
            "no_such_tool",
            "error",
            f"is {stranger.error!r}",
            "answer unknown_tool to a tool that is not there",
        )
    sampler = Sampler(keyed_random(0, "env check refusals"))
    for tool in probe.environment.tools().values():
        for kind, argument, call in illegal(tool, sampler):
            result = probe.call(instance, call)
            if result.error is not None:
                continue
            if kind == "type":
                probe.lenient.add(f"{tool.name}.{argument}")
            elif kind == "bounds" and tool.bounded:
                value = call.arguments[argument]
                long = isinstance(value, str) and len(value) > 20
                words = f"a text of {len(value)} characters" if long else repr(value)
                probe.fault(
                    tool.name,
                    argument,
                    f"accepts {words}, which its schema excludes",
                    "check declared bounds before the call, answer `bounds`",
                )
            elif kind in ("missing", "extra"):
                probe.fault(
                    tool.name,
                    argument,
                    f"a call with it {kind} is accepted",
                    "answer `bad_arguments`",
                )
    if (
        features.snapshot
        and not (probe.lenient or probe.faults)
        and canonical(instance.snapshot()) != before
        # a picture made of calls holds those too that a tool has refused
        and not (features.state_visible and probe.reset(picture).same_state(instance))
    ):
        probe.fault(
            "snapshot",
            "",
            "differs after calls that were all refused",
            "refuse before anything is changed",
        )


def _effects(probe: "Probe", state: State, calls: list[Call]) -> None:
    """Tools keep what they declare of the state (`Tool.reads`); one that refuses a call has not
    changed it. A world that is restored right before a call answers it alike and comes to the same
    state: nothing else is remembered."""
    declared = {
        name: tool.reads
        for name, tool in probe.environment.tools().items()
        if tool.reads is not None
    }
    replayed = isinstance(probe.environment, Replayed)  # whose snapshot is what it lived through
    if not declared or not probe.features.snapshot or replayed:
        return
    instance = probe.fresh(state)
    picture = instance.snapshot()
    latest = Call("reset", {})
    for call in calls:
        try:
            restored = probe.fresh(picture)
        except ValueError as error:
            what = f"{_short(latest)} made a state that reset refuses: {str(error)[:200]}"
            remedy = "keep the bounds of the state"
            probe.fault(latest.name, "", what, remedy, "bounds")
            return
        latest = call
        before = canonical(picture)
        result = probe.call(instance, call)
        again = probe.call(restored, call)
        picture = instance.snapshot()
        if "infrastructure" in (result.error, again.error):
            continue
        changed = before != (after := canonical(picture))
        alike = (result.text, result.error) == (again.text, again.error) and canonical(
            restored.snapshot()
        ) == after
        if probe.comparable and not alike:
            probe.fault(
                call.name,
                "",
                f"does {_short(call)} otherwise in a world that was restored right before it",
                "keep all that is remembered in fields of the state",
                "snapshots",
            )
        if call.name not in declared or changed == (
            result.error is None and not declared[call.name]
        ):
            continue
        if result.error is not None:
            what = f"refused {_short(call)}, but changed the state"
            owed = "refuse before anything is changed", "atomic"
        elif changed:
            what = f"says that it changes nothing, and does: {_short(call)}"
            owed = "change nothing", "getters"
        else:
            what = f"answered {_short(call)} with success and changed nothing"
            owed = "refuse a call that has nothing to change", "effects"
        probe.fault(call.name, "", what, *owed)


def _hints(probe: "Probe", state: State, calls: list[Call]) -> None:
    """Where nothing but answers shows the state, what a tool says of itself is believed of none:
    with all that claim to read, each called twice in a row, the others answer as without them, and
    the probes end alike."""
    environment = probe.environment
    if not isinstance(environment, Replayed) or environment.minted or not probe.comparable:
        return
    reads = {name for name, tool in environment.tools().items() if tool.reads}
    unbelieving = environment.unbelieving()

    def felt(without: set[str]) -> list[Any]:
        world = unbelieving.reset(copy.deepcopy(state))
        answers = [
            probe.replies(world, [call] * (2 if call.name in reads else 1))
            for call in calls
            if call.name not in without
        ]
        return [*(said for said in answers if len(said) == 1 or said[0] != said[1]), world.look()]

    alone = felt(reads)
    liars = sorted(reads) if felt(set()) != alone else []
    some = [f"some of {', '.join(liars[:SOME])}"] if liars else []  # which do it together
    for name in [name for name in liars if felt(reads - {name}) != alone] or some:
        probe.fault(
            name,
            "",
            "says that it changes nothing, and does",
            "`rods env add --writes` (`writes` in the description) overrules what it says",
            "getters",
        )


def _failures(probe: "Probe", state: State, calls: list[Call]) -> None:
    """Calls that cannot succeed fail: what they answer is an error, as it comes or by a rule of the
    environment's (`rods.environments.failing`)."""
    environment = probe.environment
    refuse = (
        "" if isinstance(environment, Replayed) else "answer with the error `tool` (ToolError), or "
    )
    for rule, examples in proposals(environment, calls, partial(probe.call, probe.fresh(state))):
        what = f"tells failures as ordinary results: {examples}"
        remedy = f"{refuse}write {rule} into `fails`, an empty list if these are none"
        if getattr(environment, "fails", None) is not None:
            probe.note(f"{what}; {remedy}")
        elif remedy not in [fault.remedy for fault in probe.faults]:  # in another state
            probe.fault(environment.name, "", what, remedy, "errors")


CONTROLS = (_repeats, _hints, _isolation, _snapshots, _forks, _refusals, _failures, _effects)


def _refuses(probe: "Probe", ability: str, action: Callable[[], Any]) -> None:
    try:
        action()
    except Unsupported:
        return
    probe.fault(
        ability,
        "",
        "answers although Features says that it is lacking",
        "raise Unsupported, or declare it",
    )


def _cause(calls: list[Call], seen: Call, differ: Callable[[list[Call]], bool]) -> tuple[str, str]:
    """The tool that has made the answer of `seen` another one, and by which answer that shows
    (empty: by its own): the last of the shortest beginning of `calls` for which answers `differ`.
    """
    if not differ(calls):  # of no one tool
        return seen.name, ""
    shortest = bisect_left(range(len(calls)), True, key=lambda count: differ(calls[:count]))
    cause = calls[shortest - 1].name if shortest else seen.name
    return cause, "" if cause == seen.name else f"after it, {seen.name}"


def differs(first: list[Reply], second: list[Reply]) -> int | None:
    """The first place in which the replies of two runs differ."""
    return next((at for at, (a, b) in enumerate(zip(first, second, strict=True)) if a != b), None)


def _apart(first: Reply, second: Reply) -> tuple[str, str]:
    """What two replies say from where they begin to differ, with a little of what is before."""
    pairs = enumerate(zip(first[0], second[0], strict=False))
    start = max(0, next((at for at, (one, other) in pairs if one != other), 0) - 20)
    return first[0][start : start + 80], second[0][start : start + 80]


def _reversed(value: Any) -> Any:
    """The same JSON value, the keys of every object in reverse order."""
    if isinstance(value, Mapping):
        return {key: _reversed(value[key]) for key in reversed(list(value))}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


def _poison(value: Any) -> None:
    """Changes every object and list inside a JSON value."""
    if isinstance(value, dict):
        for item in value.values():
            _poison(item)
        value["changed by the probe"] = True
    elif isinstance(value, list):
        for item in value:
            _poison(item)
        value.append("changed by the probe")


def _report(probe: "Probe", name: str, tasks: Sequence[Task]) -> CheckReport:
    tools = probe.environment.tools()
    if lenient := sorted(probe.lenient):
        some = f"{', '.join(lenient[:SOME])}{' …' if len(lenient) > SOME else ''}"
        probe.note(f"wrong types are accepted for {len(lenient)} arguments: {some}")
    for text in probe.twins.notes():
        probe.note(text)
    broke = {entry.partition(" ")[0] for entry in probe.raises} | probe.hung
    met = {"worked": probe.reached, "refused": probe.refused, "broke": broke, "not tried": tools}
    verdicts = {tool: next(word for word, names in met.items() if tool in names) for tool in tools}
    if untried := [tool for tool, verdict in verdicts.items() if verdict == "not tried"]:
        probe.note(f"not tried: {', '.join(untried)}")
    if unreached := sorted(set(tools) - probe.reached - set(untried)):
        remedy = (
            "no given task calls them successfully"
            if tasks
            else "give tasks to probe with (--tasks)"
        )
        if probe.reached:
            probe.note(f"never answered without an error: {', '.join(unreached)}; {remedy}")
        else:
            what = (
                f"no tool answered without an error ({', '.join(unreached[:SOME])}): nothing that "
                f"works was tried"
            )
            probe.fault(name, "tools", what, remedy)
    facts = {
        "hash": probe.environment.hash,
        "tools": len(tools),
        "reached": len(probe.reached & set(tools)),
        "calls": probe.calls,
        "verdicts": verdicts,
        **{
            f"{what}_us": round(1e6 * statistics.median(seconds), 1)
            for what, seconds in sorted(probe.seconds.items())
        },
        **present(recipes=probe.tried or None),
    }
    return CheckReport(name, tuple(probe.faults), tuple(probe.notes), facts)


class Probe:
    """Asks one environment; whatever it does wrong becomes a fault, once each, and never an
    exception. Only what the `machinery` does wrong is raised."""

    def __init__(self, environment: Environment, share: float = math.inf) -> None:
        self.environment = environment
        self.share = share  # seconds that the calls of a world may take
        self.twins = Twins()
        self.done = [""]  # what is done with
        self.sound = 0  # faults that were found there
        self.scripts: dict[str, list[Call]] = {}  # the calls of a state, by its place
        self.refused: set[str] = set()  # tools that have answered, though with an error
        self.features = environment.features
        # how instances of this kind are kept apart
        self.apart = getattr(
            getattr(environment, "inner", None),
            "apart",
            "keep all state in the instance, none in the module or class",
        )
        self.faults: list[Fault] = []
        self.notes: list[str] = []
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.reached: set[str] = set()
        self.raises: set[str] = set()  # tools, and the kind of exception
        self.lenient: set[str] = set()  # arguments for which a wrong type is accepted
        # of the tools that declare a schema of their results
        self.results: dict[str, Checker] = {}
        self.calls = 0
        self.tried = ""  # how many recipes of the catalogue ran
        self.comparable = False  # two runs of the same calls were seen to agree
        self.control = ""  # the one that asks now
        # what is tried now, and by which control and tool
        self.place = "the description"
        self.doing = ""
        self.asking = ""
        # tools that are asked no more: a call had to be cut off, or all took too long
        self.hung: set[str] = set()
        self.broke: Counter[str] = Counter()  # calls after which what serves the tool was gone
        # seconds that the calls of a tool took together
        self.spent: defaultdict[str, float] = defaultdict(float)
        self.asked = Counter[str]()
        self.patience = SLOW_CALL  # seconds that a call may take

    def begins(self, *place: str) -> bool:
        """Whether what is to be done at a place, by a control, was not done before. What was begun
        last is done then."""
        self.done += [self.doing] if self.doing not in self.done else []
        self.place = place[0]
        self.doing = ", ".join(place)
        self.sound = len(self.faults)
        return self.doing not in self.done

    def found(self, seconds: float, begun: int) -> JsonObject:
        """What was found where it is done, for `go_on`. Where that is no more than the `begun`
        places, what alone takes longer than `seconds` is left out."""
        faults = self.faults[: self.sound]
        if len(self.done) == begun:
            self.done.append(self.doing)
            what = f"{self.doing} takes longer than {seconds:g} s: it was left out"
            remedy = "make its tools answer sooner, or give it longer"
            self.fault(self.environment.name, "", what, remedy)
            faults.append(self.faults[-1])
        self.notes += self.twins.notes()
        return {
            **only(vars(self), KEPT),
            "faults": [asdict(fault) for fault in faults],
            "scripts": {
                place: [call.as_json() for call in calls] for place, calls in self.scripts.items()
            },
        }

    def go_on(self, found: JsonObject) -> None:
        """Goes on behind what another one has `found`."""
        self.faults = [Fault(**fault) for fault in found.pop("faults")]
        for place, calls in found.pop("scripts").items():
            self.scripts[place] = [Call.from_json(call) for call in calls]
        for name, value in found.items():
            setattr(self, name, set(value) if name in SETS else value)

    def read(self, name: str, tool: Tool, control: str = "") -> None:
        """Looks over a tool's document, and holds its results to it from now on."""
        if tool.result is not None:
            self.results[name] = Checker(tool.result)
        for fault in tool_faults(name, tool):
            self.fault(name, *fault, control)

    def fault(self, where: str, field: str, what: str, remedy: str, control: str = "") -> None:
        fault = Fault(where, field, what, remedy, control or self.control)
        if fault not in self.faults:
            self.faults.append(fault)

    def raised(self, tool: str, error: BaseException, on: str) -> None:
        """A tool raised: reported once a tool and kind of exception, or rule that it broke, with
        the first call that did it."""
        if isinstance(error.__cause__, Overrun):  # of a confined world
            self.hung.add(tool)
            self.fault(
                tool,
                "",
                f"was cut off ({error.__cause__}) on {on}",
                "tighten the bounds of its arguments, and end every loop",
                "runaway",
            )
            return
        broken = _BROKEN_RULE.search(str(error))
        kind = (broken[1] or broken[2]) if broken else type(error).__name__
        if (entry := f"{tool} {kind}") in self.raises:
            return
        self.raises.add(entry)
        if broken and broken[2]:
            remedy = "answer with the numbers of broken rules in every state"
            self.fault("the rules", "", f"{broken[0][:300]} after {on}", remedy, "rules")
        elif broken:
            remedy = "refuse what would break it, before anything is changed"
            self.fault(tool, "", f"{broken[0][:300]} ({on})", remedy, "rules")
        else:
            what = f"raised {type(error).__name__} ({str(error)[:120]}) on {on}"
            remedy = MENDED if _broken(error) else RETURN
            self.fault(tool, "", what, remedy, "errors")

    def machinery(self, error: BaseException) -> bool:
        """Whether what runs the environment broke (a worker that was killed, say), which says
        nothing of its code. One that waits for a process of its own answers for that, too."""
        return _broken(error) and not self.features.waits

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    @contextmanager
    def guarded(self, where: str, field: str = "") -> Iterator[None]:
        """Turns what user code raises into a fault. The rest of the block is lost. Raises
        InfrastructureError where the machinery broke."""
        try:
            yield
        except Unsupported as error:
            self.fault(
                where,
                field,
                f"raised Unsupported ({error}) for a declared ability",
                "declare it in Features",
            )
        except UserError as error:
            self.fault(error.where or where, "", error.what, error.remedy)
        except (Exception, SystemExit) as error:
            if self.machinery(error):
                raise
            self.fault(where, field, f"raised {type(error).__name__}: {error}", RETURN)

    def timed(self, what: str, action: Callable[[], T]) -> T:
        start = time.perf_counter()
        try:
            return action()
        finally:
            self.seconds[what].append(time.perf_counter() - start)

    def reset(self, state: Any) -> Instance:
        return self.timed("reset", lambda: self.environment.reset(state))

    def fresh(self, state: Any) -> Instance:
        """A world of a copy of the state, which stays as it is whatever the environment does."""
        return self.reset(copy.deepcopy(state))

    def call(self, instance: Instance, call: Call) -> Result:
        """The result of a call, checked for its form; a stand-in with the error `infrastructure`
        when it raised, or its tool had to be cut off before. Raises InfrastructureError where the
        machinery broke."""
        if call.name in self.hung:
            return Result("", error="infrastructure")
        self.calls += 1
        self.asking = f", {self.control or 'calls'}, {call.name}"
        try:
            result = self.timed("call", lambda: instance.call(call))
        except (Exception, SystemExit) as error:
            if self.machinery(error):
                raise
            self.raised(call.name, error, _short(call))
            ended = isinstance(error, InfrastructureError) and not _BROKEN_RULE.search(str(error))
            self.broke[call.name] += ended
            if self.broke[call.name] == BREAKS:
                self.hung.add(call.name)
            return Result("", error="infrastructure")
        finally:
            self._account(call.name)
        if self.seconds["call"][-1] > self.patience and not self.features.waits:
            self.fault(
                call.name,
                "",
                f"took {self.seconds['call'][-1]:.1f} s for {_short(call)}",
                "tighten the bounds of its arguments, or limit it in a worker",
            )
        self._form(call, result)
        (self.refused if result.error else self.reached).add(call.name)
        return result

    def _account(self, tool: str) -> None:
        """A tool that has taken its share of the time is asked no more, and said to be slow. One
        call alone, which this machine may have kept waiting, spends little of it, and nothing is
        said where other tools take as long: then the machine is slow."""
        waits = self.features.waits
        took = self.seconds["call"][-1]
        self.spent[tool] += took if waits else min(took, SLOW_CALL)
        self.asked[tool] += 1
        if self.spent[tool] <= (ALL_CALLS_WAITED if waits else ALL_CALLS) or tool in self.hung:
            return
        if not waits and len(self.environment.tools()) > 1:
            mean = {name: self.spent[name] / asked for name, asked in self.asked.items()}
            took = mean.pop(tool)
            if took <= SLOWER * statistics.median(mean.values() or [math.inf]):
                return
        self.hung.add(tool)
        what = f"took {self.spent[tool]:.0f} s for its calls together: it is asked no more"
        self.note(f"{tool} {what}") if waits else self.fault(
            tool, "", what, "let a call do less", "runaway"
        )

    def _form(self, call: Call, result: Result) -> None:
        if not isinstance(result, Result) or not isinstance(result.text, str):
            what = f"returned {result!r:.80} for {_short(call)}"
            self.fault(call.name, "", what, "return a Result with a text", "errors")
            return
        if result.error is not None and result.error not in CALL_ERRORS:
            self.fault(
                call.name,
                "error",
                f"is {result.error!r}",
                f"use one of {', '.join(sorted(CALL_ERRORS))}",
                "errors",
            )
        try:
            canonical(result.value)
        except ValueError as error:
            self.fault(call.name, "value", f"is {error}", "return plain JSON values", "errors")
        declared = self.results.get(call.name)
        if declared is not None and result.error is None and (what := declared.fault(result.value)):
            self.fault(
                call.name,
                "result",
                f"{what} for {_short(call)}, against the schema that the tool declares",
                "correct the schema, or the result",
                "documents",
            )

    def replies(self, instance: Instance, calls: Sequence[Call]) -> list[Reply]:
        """What two runs must have in common: text and error of each call."""
        results = (self.call(instance, call) for call in calls)
        return [(result.text, result.error) for result in results]


def _broken(error: BaseException) -> bool:
    return isinstance(error, InfrastructureError) and not isinstance(error, BrokenEnvironment)


def _short(call: Call) -> str:
    text = str(call)
    return text if len(text) <= 120 else text[:117] + "…"
