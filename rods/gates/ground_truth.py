"""What holds for a ground truth by itself (004 Appendix G, gates 1 to 3): `replay` runs it again,
from the task's own state, in a fresh instance; `tools` are visible where they are called;
`arguments` are no larger than a policy writes; no call is `needless`; and there is `Room` for it.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from rods import dialects
from rods.analysis.containment import key_of, leaves
from rods.analysis.impostors import impostor, signs
from rods.analysis.profile import Profile
from rods.calls import Call
from rods.canonical import canonical, frozen
from rods.composing.lexicon import lexicon
from rods.config import Config, Gates
from rods.conversations import Checks
from rods.environments.base import (
    Environment,
    Instance,
    Result,
    Results,
    checks,
    opened,
    reference,
    value_of,
)
from rods.episode.drivers import Job, ground_truth
from rods.episode.goals import goal_of
from rods.errors import InfrastructureError, UserError
from rods.extension import Door
from rods.faults import BREAKS_DOCUMENT, NOT_EXECUTED, GateRejection, Reason, Reasons
from rods.files import read_regular
from rods.logs import log
from rods.tasks import AnyTask, OpenTask, Task

DIGEST = "sha256:"
COUNTED = 1000  # tasks at most
TOKENIZER = 128 << 20  # bytes; the largest have a quarter of that


@frozen
class Checked:
    """What one fresh run of a task's ground truth gave, and the gates that refuse the task (none:
    it is accepted).

    `results` is None when the ground truth could not be run at all (another environment, an illegal
    state), `profile` when it could not, or calls tools that the environment lacks."""

    results: Results | None
    profile: Profile | None
    rejections: tuple[GateRejection, ...]


class StateRejected(Exception):
    """The environment does not accept the task's initial state."""


def run(environment: Environment, task: Task, idle: Reasons | None = None) -> Results:
    """The results of all ground-truth calls of `task` in a fresh instance. Raises StateRejected,
    and InfrastructureError when the machinery broke (that is never the task's fault).

    `idle` gets what shows that a ground truth does nothing: calls that succeed, change nothing, and
    are answered as their impostors are (`rods.analysis.impostors`). Where something is changed
    elsewhere, or a call reads, only an answer that looks like a failure counts. Asked only where
    worlds can be copied and compared, and not every result is judged."""
    try:
        instance = opened(environment, task)
    except ValueError as error:
        raise StateRejected(f"the initial state is rejected: {error}") from error
    features = environment.features
    watched = features.fork and features.state_visible and features.reads_judged != "all"
    changed = False
    surely: Reasons = []
    perhaps: Reasons = []
    results: list[list[Result]] = []
    for turn, calls in enumerate(task.calls):
        results.append([])
        for index, call in enumerate(calls):
            before = instance if idle is None or not watched else instance.fork()
            result = instance.call(call)
            results[turn].append(result)
            if result.error == "infrastructure":
                raise InfrastructureError(f"while replaying task {task.id}: {result.text}")
            if before is instance or result.error is not None:
                continue
            tool = environment.tools()[call.name]
            fails = any(signs(result))
            if not tool.reads and not instance.same_state(before):
                changed = True
            elif (fails or not (tool.reads or changed)) and (other := impostor(tool, call)):
                answer = before.call(other.call)
                text = other.answer(answer.text) if fails else answer.text
                if answer.error is None and text == result.text:
                    what = f"{call.name} changes nothing, and answers as for what is not there"
                    reason = Reason(f"{what}: {result.text[:200]!r}", turn, index)
                    (surely if fails else perhaps).append(reason)
    if idle is not None:
        idle += surely if changed else [*surely, *perhaps]
    return results


def faults(environment: Environment, task: Task, results: Results) -> Reasons:
    """What is wrong with `results`: calls that failed, and texts other than those that the task's
    provenance records (`results`, one list of texts a turn, each whole or `brief`). A record counts
    only where the environment is deterministic."""
    recorded = task.provenance.get("results") if environment.features.deterministic else None
    if recorded is not None and not _texts(recorded):
        return [Reason("provenance.results must be one list of texts a turn")]
    reasons = []
    for turn, (calls, seen) in enumerate(zip(task.calls, results, strict=True)):
        for index, (call, result) in enumerate(zip(calls, seen, strict=True)):
            if result.error is not None:
                reasons.append(
                    Reason(f"{call.name} fails ({result.error}): {result.text[:200]}", turn, index)
                )
            elif recorded is not None:
                record = recorded[turn][index : index + 1] if turn < len(recorded) else []
                if not record or record[0] not in (result.text, brief(result.text)):
                    record_text = repr(record[0][:200]) if record else "nothing"
                    reasons.append(
                        Reason(
                            f"{call.name} gave {result.text[:200]!r}, recorded was {record_text}",
                            turn,
                            index,
                        )
                    )
    return reasons


def abridged(task: Task) -> Task:
    """`task` as logs keep it: its recorded results `brief`. Those of padded worlds run to hundreds
    of kilobytes, and a replay only asks whether they come again."""
    results = task.provenance.get("results")
    if results is None or not _texts(results):
        return task
    short = [[brief(text) for text in turn] for turn in results]
    return replace(task, provenance={**task.provenance, "results": short})


def brief(text: str) -> str:
    """`text`, or its SHA-256 where that is shorter."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return text if len(text) <= len(DIGEST) + len(digest) else DIGEST + digest


def unjudgeable(environment: Environment, task: OpenTask) -> Reasons:
    """Why a task that is judged at the end cannot be; empty where it can: the environment has its
    tools and checks, each check can be asked of the initial state, and one of them does not hold
    there yet. A rubric asks no environment. Raises InfrastructureError when the machinery broke."""
    if strange := foreign(environment, task):
        return strange
    try:
        instance = opened(environment, task)
    except ValueError as error:
        return [Reason(f"the initial state is rejected: {error}")]
    reasons = unknown(environment, task)
    available = checks(environment)
    if not isinstance(task.goal, Checks):
        return reasons
    held = 0
    for check in task.goal.calls:
        if check.name not in available:
            there = f"it has {', '.join(sorted(available))}" if available else "it has none"
            reasons.append(Reason(f"the environment has no check {check.name!r} ({there})"))
            continue
        result = instance.call(check)
        if result.error in NOT_EXECUTED:
            raise InfrastructureError(f"while asking the checks of task {task.id}: {result.text}")
        if result.error in BREAKS_DOCUMENT:
            reasons.append(
                Reason(f"the check {check} cannot be asked ({result.error}): {result.text[:200]}")
            )
        elif result.error is None and type(result.value) is not bool:
            reasons.append(
                Reason(f"the check {check} answers {result.text[:200]!r}, neither true nor false")
            )
        held += result.value is True
    if held == len(task.goal.calls):
        reasons.append(Reason("all of its checks hold before anything is done"))
    return reasons


def replay(environment: Environment, task: Task) -> Reasons:
    """Why the task's ground truth does not hold; empty when it does. Raises InfrastructureError,
    see `run`."""
    return replayed(environment, task)[1]


def replayed(environment: Environment, task: Task) -> tuple[Results | None, Reasons]:
    """`replay`'s reasons, and the results for whoever needs them next; None when nothing could
    run."""
    if strange := foreign(environment, task):
        return None, strange
    idle: Reasons = []
    try:
        results = run(environment, task, idle)
    except StateRejected as error:
        return None, [Reason(str(error))]
    return results, faults(environment, task, results) or idle


def unheld(environment: Environment, task: AnyTask) -> Reasons:
    """Why the task cannot be trained on in its environment: its tools do not fit, or its ground
    truth or goal does not hold; empty when it can. Raises InfrastructureError, see `run`."""
    if isinstance(task, OpenTask):
        return unjudgeable(environment, task)
    assert isinstance(task, Task)
    return tools(environment, task) or replay(environment, task)


def misjudged(environment: Environment, task: Task, results: Results) -> Reasons:
    """The calls that run here, and that the environment's official checker would hold against its
    own ground truth."""
    catalogue = lexicon(environment).catalogue
    calls = () if catalogue is None else catalogue.misjudged(task, results)
    return [Reason(why, turn, index) for turn, index, why in calls]


def foreign(environment: Environment, task: AnyTask) -> Reasons:
    """Whether the task was written for another environment, or another version of it."""
    own = reference(environment)
    wanted = task.environment
    if own == wanted:
        return []
    return [Reason(f"written for {wanted.name} {wanted.hash}, but this is {own.name} {own.hash}")]


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(turn, list) and all(isinstance(text, str) for text in turn) for turn in value
    )


def tools(environment: Environment, task: Task) -> Reasons:
    """Why the task's tools do not fit; empty when they do. A held-out tool counts from the turn of
    its return."""
    reasons = unknown(environment, task)
    until = {name: turn for turn, names in task.later_tools.items() for name in names}
    for turn, calls in enumerate(task.calls):
        visible = set(task.tools_at(turn))
        for index, call in enumerate(calls):
            if call.name not in visible:
                back = until.get(call.name)
                out = f"held out until turn {back}"
                why = "not among the task's tools" if back is None else out
                reasons.append(Reason(f"{call.name} is {why}", turn, index))
    return reasons


def unknown(environment: Environment, task: AnyTask) -> Reasons:
    """The task's tools that the environment lacks."""
    available = environment.tools()
    return [
        Reason(f"the environment has no tool {name!r}")
        for name in task.tools
        if name not in available
    ]


def arguments(task: Task, gates: Gates) -> Reasons:
    """Why the arguments are too large; empty when none is. Texts and lists inside lists and objects
    count too."""
    places = (
        (turn, index, call)
        for turn, calls in enumerate(task.calls)
        for index, call in enumerate(calls)
    )
    return [
        Reason(why, turn, index) for turn, index, call in places for why in oversized(call, gates)
    ]


def oversized(call: Call, gates: Gates) -> Iterator[str]:
    """What of a call's arguments is larger than `gates` allow."""
    for name, argument in call.arguments.items():
        left = [argument]
        while left:
            value = left.pop(0)
            listed = isinstance(value, (list, tuple))
            what, most = (
                ("elements", gates.max_list) if listed else ("characters", gates.max_string)
            )
            if (listed or isinstance(value, str)) and len(value) > most:
                yield f"{call.name}: {name} has {len(value)} {what}, at most {most} are allowed"
            inside = value.values() if isinstance(value, dict) else value if listed else ()
            left = [*inside, *left]


class OpenTasks(Protocol):
    """A kind of tasks without ground truth by turn that variants can be written of."""

    def solution(self, task: AnyTask) -> Sequence[Call] | None:
        """Calls that do what `task` asks for; None where it is no task of this kind. Raises
        ValueError for an unreadable record."""

    def replayed(self, environment: Environment, task: AnyTask) -> Sequence[Reason]:
        """Why an admitted variant of this kind holds no more. Raises InfrastructureError where a
        world or a player broke."""

    def held(self, task: AnyTask) -> int:
        """How many of the checks of `task` hold when nothing has been done."""


OPEN_TASKS: Door[OpenTasks] = Door("open_tasks")  # (003)


def can_vary(task: AnyTask) -> bool:
    """Whether variants can be written of `task`: it has ground truth by turn, or a feature knows
    what solves it. Raises ValueError for one whose record cannot be read."""
    return isinstance(task, Task) or open_kind(task) is not None


def open_kind(task: AnyTask) -> OpenTasks | None:
    """The kind of open tasks that `task` is of, if any. Raises ValueError as `can_vary`."""
    kinds = OPEN_TASKS.providers().values()
    return next((kind for kind in kinds if kind.solution(task) is not None), None)


def needless(environment: Environment, task: Task, results: Results) -> Reasons:
    """Calls that a policy has reason not to make, where worlds can be copied and compared and calls
    wait for no other process, which would cost too much:

    - a turn in which each call was made before, with this result, and nothing of its class has
      changed since; where each result is judged, one such call is enough, and one whose result
      stands in what a change has shown;
    - a call that sets what is set, of a tool that has changed something before;
    - a call that leaves an argument out and so undoes what an earlier one gave there, when nothing
      between told the difference: a default that nobody asked for;
    - a call that comes `once`, again."""
    features = environment.features
    compared = features.fork and features.state_visible and features.deterministic
    if features.waits or not compared:
        return []
    catalogue = lexicon(environment).catalogue
    once = catalogue.once if catalogue else {}
    tools = environment.tools()
    instance = opened(environment, task)
    versions = Counter[str]()  # changes so far, by class and by tool
    shown = set[tuple[bytes, str, str, int]]()  # call, text, class, version
    told: list[tuple[str, int, set[Any]]] = []  # what a change showed: class, version, leaves
    # of tools with defaults, each with the world in which it was never made
    writes: list[tuple[Call, Instance]] = []
    made = set[bytes]()  # of what comes once
    reasons: Reasons = []
    for turn, (calls, seen) in enumerate(zip(task.calls, results, strict=True)):
        known: Reasons = []
        fresh = set(shown)
        for index, (call, result) in enumerate(zip(calls, seen, strict=True)):
            tool = tools[call.name]
            before = instance if tool.reads else instance.fork()
            instance.call(call)
            changed = before is not instance and not instance.same_state(before)
            if not changed and versions[call.name]:
                reasons.append(Reason(f"{call.name} sets what is so already", turn, index))
            versions.update({tool.group: changed, call.name: changed})
            now = (tool.group, versions[tool.group])
            record = (canonical(call.as_json()), result.text, *now)
            own = {(name, key_of(leaf)) for name, leaf in leaves(value_of(result))}
            within = any(own and own <= held for *at, held in told if (*at,) == now)
            if tool.reads and (record in shown or within):
                known.append(Reason(f"{call.name} shows what was shown already", turn, index))
            fresh.add(record)
            told += [(*now, own)] if changed else []
            told_nothing = []
            for write, without in writes:
                same_text = without.call(call).text == result.text
                again = changed and write.name == call.name
                left_out = again and not write.arguments.keys() <= call.arguments.keys()
                if left_out and instance.same_state(without):
                    reasons.append(
                        Reason(
                            f"{call.name} leaves out what {write} gave, and undoes it", turn, index
                        )
                    )
                elif same_text:
                    told_nothing.append((write, without))
            writes = told_nothing
            if changed and not all(parameter.required for parameter in tool.parameters):
                writes.append((call, before))
            if call.name in once:
                key = canonical([call.name, *map(call.arguments.get, once[call.name])])
                if key in made:
                    reasons.append(Reason(f"{call.name} comes a second time", turn, index))
                made.add(key)
        shown = fresh
        if features.reads_judged == "all" or len(known) == len(calls):
            reasons += known
    return reasons


class Room:
    """The context of the policy of a run, and what of it ground truths take: a gate, and a count of
    the given tasks at a start and in `rods plan`. `count` gives the tokens of a text, by the
    tokenizer in the policy's folder. Counted are the texts of the conversation, those of tools too.
    What a chat template writes around them, and what the policy thinks, come on top: what is
    refused does not fit, and what passes may be tight."""

    def __init__(self, config: Config, count: Callable[[str], int]) -> None:
        policy = config.policy
        prompt = config.curriculum.stages[-1].prompt
        self._dialect = dialects.load(policy.dialect, prompt, policy.model, policy.family)
        self._most = config.rollouts.max_context_tokens
        self._count = lru_cache(maxsize=1024)(count)  # tasks have prompts in common

    @staticmethod
    def of(config: Config) -> "Room | None":
        """None where nobody here can count: the policy has no tokenizer of transformers, its folder
        is on another machine, or `tokenizers` is not installed."""
        if config.policy.kind != "transformers":
            return None
        try:
            from tokenizers import Tokenizer  # late: a daemon may run without

            file = Path(config.policy.model) / "tokenizer.json"
            tokenizer = Tokenizer.from_buffer(read_regular(file, TOKENIZER))
            return Room(config, lambda text: len(tokenizer.encode(text, add_special_tokens=False)))
        except (ImportError, OSError, ValueError, UserError) as error:
            log.warning("whether ground truths fit the context is not known", why=str(error))
            return None

    def reasons(self, environment: Environment, task: Task) -> list[Reason]:
        """Why it does not fit, with the turn in which the context is full; none where it does."""
        tokens = 0
        job = Job(task, environment, self._dialect, goal_of(environment, task))
        for need, reply in ground_truth(job):
            fresh = need.messages[need.fresh :]
            texts = [text for message in fresh for text in (message.content, *message.tools)]
            tokens += sum(map(self._count, [*texts, reply]))
            if tokens > self._most:
                why = f"its ground truth has {tokens:,} tokens by then, the context {self._most:,}"
                return [Reason(why, need.turn)]
        return []

    def cramped(self, tasks: Sequence[AnyTask], load: Callable[[str], Environment]) -> str:
        """How many of `tasks` do not fit, in words; empty where all do. Of many some are counted,
        in equal distances. `load` gives the environment of a name."""
        some = tasks[:: 1 + len(tasks) // COUNTED]
        counted = [task for task in some if isinstance(task, Task)]
        over = [task.type for task in counted if self.reasons(load(task.environment.name), task)]
        if not over:
            return ""
        kinds = ", ".join(f"{type} {over.count(type)}" for type in sorted(set(over)))
        return (
            f"the ground truths of {len(over)} of {len(counted)} training tasks ({kinds}) do not "
            f"fit rollouts.max_context_tokens = {self._most}: nobody can solve them"
        )
