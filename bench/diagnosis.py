"""Labels of turns against mistakes that are known, and against the errors of BFCL's own checker.

Claim: a scripted policy that makes mistakes of known kinds, one or several an episode, is given
their labels, every time; turns that were labelled by hand, from 002 alone, have those labels; and
the label of the first turn that fails agrees with the error that BFCL's checker names, through the
table in docs/diagnosis.md. Anchor: the mistakes themselves; the labels by hand; the benchmark's
checker. Command: `python -m bench.diagnosis`, with `--seed N` for other episodes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bench.bfcl_parity.mutations import Mutations
from bench.bfcl_parity.oracle import ORACLE
from bench.figures import Figure, run
from bench.fixtures.faulty_turns import DIALECTS, FaultyEpisode, FaultyTurns, played, written
from bench.fixtures.labelled_turns import labelled
from rods.environments.loading import Environments
from rods.episode.diagnosis import diagnose
from rods.episode.engine import Trace
from rods.family.benchmarks.bfcl.scorer import start
from rods.faults import LABELS, SUCCESSES, Label
from rods.tasks import Task
from rods.worlds.bfcl import tasks, wheel
from rods.worlds.desk.generator import generate

# episodes of each world
FULL = 2_500
QUICK = 110
MUTATED = 4_000  # of which more than 2,000 fail
SEED = 20_261
EMPTY = "multi_turn:empty_turn_model_response"
STATE = "multi_turn:instance_state_mismatch"
RESPONSE = "multi_turn:execution_response_mismatch"
SPURIOUS = "multi_turn:irrelevance_error:decoder_success"
ERRORS: frozenset[Label] = frozenset(
    {"invalid_tool_call", "argument_mismatch", "instance_mismatch", "recovery_failure"}
)
# Which labels a turn may have that the checker blames so (docs/diagnosis.md).
AGREES: Mapping[str | None, frozenset[Label | None]] = {
    None: frozenset({None}),
    EMPTY: frozenset({"empty_turn_model_response", "invalid_tool_call"}),
    STATE: frozenset({*ERRORS, "state_mismatch", "missing_tool_call"}),
    RESPONSE: frozenset({*ERRORS, "missing_tool_call", "response_mismatch"}),
    SPURIOUS: frozenset({"spurious_tool_call", "invalid_tool_call", "argument_mismatch"}),
}


def measure(quick: bool, seed: str = str(SEED)) -> list[Figure]:
    """The share of right labels in each world, with the confusion matrix; CPU time a label."""
    figures: list[Figure] = []
    random_seed = int(seed)
    for world in ("bfcl", "desk"):
        found, seconds = confusion(world, QUICK if quick else FULL, random_seed)
        for line in table(found):
            print(f"  {world:5} {line}")
        right = sum(count for (told, label), count in found.items() if told == label)
        figures.append(
            Figure(f"{world}: mistakes labelled right", right / found.total(), "share", reach=1.0)
        )
        figures.append(
            Figure(f"{world}: CPU time", 1000 * seconds / found.total(), "ms an episode")
        )
    agreed, turns = by_hand()
    figures.append(Figure(f"turns labelled as by hand, of {turns}", agreed / turns, "share"))
    agreed, failing, shared = agreement(QUICK if quick else MUTATED, random_seed)
    figures.append(
        Figure(
            f"labels that agree with BFCL's checker, of {failing} failing rollouts",
            agreed / failing,
            "share",
            reach=1.0,
        )
    )
    figures.append(
        Figure("of them told apart by objects that the checker's worlds share", shared, "rollouts")
    )
    return figures


def confusion(world: str, count: int, random_seed: int) -> tuple[Counter[tuple[str, str]], float]:
    """(mistake made, label given) over `count` episodes, and the seconds that diagnosis took. A
    turn before the mistake that has not succeeded by its label counts as a mistake of its own:
    (`pass`, its label)."""
    environment = Environments().load(world)
    known = tasks() if world == "bfcl" else generate(random_seed, 200, 1)
    episodes = list(
        FaultyTurns(environment, [one for one in known if one.split == "train"], random_seed).take(
            count
        )
    )
    found: Counter[tuple[str, str]] = Counter()
    seconds = 0.0
    for episode, trace in zip(episodes, played(environment, episodes), strict=True):
        began = time.process_time()
        labels = diagnose(trace, episode.task, environment)
        seconds += time.process_time() - began
        for turn, told in enumerate(labels[: max(episode.labels) + 1]):
            right: Label = "pass" if episode.task.calls[turn] else "correct_abstention"
            made = episode.labels.get(turn, right)
            if turn in episode.labels or told != made:
                found[made, told] += 1
    return found, seconds


def by_hand() -> tuple[int, int]:
    """How many of the turns that were labelled by hand have that label, and how many there are."""
    known = {task.provenance["id"]: task for task in tasks()}
    told = [
        (label, given)
        for environment in map(Environments().load, ("bfcl", "desk"))
        for episode in labelled(environment, known)
        for label, given in zip(episode.labels, episode.told(environment), strict=True)
    ]
    return sum(label == given for label, given in told), len(told)


def agreement(count: int, random_seed: int) -> tuple[int, int, int]:
    """Of `count` mutated rollouts of BFCL's 800 tasks: in how many the label of the first failing
    turn agrees with the error of the official checker, how many fail, and how many agree only where
    the checker's worlds share nothing."""
    environment = Environments().load("bfcl")
    file = wheel.path()
    rollouts = list(Mutations(tasks(), random_seed).take(count))
    dialect = DIALECTS[0]
    episodes = [
        FaultyEpisode(one.task, {}, dialect, tuple(written(dialect, one.turns))) for one in rollouts
    ]
    asked = [[one.task.provenance["id"], one.as_text()] for one in rollouts]
    oracle = start(ORACLE)
    agreed = failing = shared = 0
    try:
        errors = oracle.call({"do": "errors", "wheel": str(file), "rollouts": asked})
        traces = played(environment, episodes, visible_only=False)
        for rollout, told, trace, request in zip(rollouts, errors, traces, asked, strict=True):
            found = first_failures(rollout.task, trace, diagnose(trace, rollout.task, environment))
            failing += any(told) or any(found)
            if not any(told) and not any(found):
                continue
            if not _agree(found, told):
                judged = oracle.call(
                    {"do": "judge", "wheel": str(file), "rollouts": [request], "isolated": True}
                )
                told = [_error(rollout.task, judged[0]["turns"]), told[1]]
                shared += _agree(found, told)
            agreed += _agree(found, told)
            if not _agree(found, told):
                print(
                    "  DIFFERS",
                    rollout.task.provenance["id"],
                    rollout.kinds,
                    found,
                    told,
                    rollout.as_text(),
                )
    finally:
        oracle.close()
    return agreed, failing, shared


def first_failures(task: Task, trace: Trace, labels: Sequence[Label]) -> list[Label | None]:
    """The label of the first turn with calls that failed, and of the first without; None for none.
    BFCL's checker looks for these two apart."""
    failed: list[tuple[bool, Label]] = [
        (bool(calls), label)
        for calls, label in zip(task.calls, labels, strict=True)
        if label not in SUCCESSES
    ]
    return [
        next((label for with_calls, label in failed if with_calls is kind), None)
        for kind in (True, False)
    ]


def _agree(labels: Sequence[Label | None], errors: Sequence[str | None]) -> bool:
    return all(label in AGREES[error] for label, error in zip(labels, errors, strict=True))


def _error(task: Task, outcomes: Sequence[Mapping[str, Any]]) -> str | None:
    """What the checker would call the first failing turn, from its parts."""
    for calls, outcome in zip(task.calls, outcomes, strict=True):
        if calls and outcome["empty"]:
            return EMPTY
        if calls and not outcome["state"]:
            return STATE
        if calls and not outcome["response"]:
            return RESPONSE
    return None


def table(found: Counter[tuple[str, str]]) -> list[str]:
    """The confusion matrix: a line a mistake, the labels that it was given with their counts."""
    return [
        f"{made:26}"
        + ", ".join(f"{given} {found[made, given]}" for given in LABELS if found[made, given])
        for made in LABELS
        if any(found[made, given] for given in LABELS)
    ]


if __name__ == "__main__":
    run(measure, seed="the random seed of episodes and mutations")
