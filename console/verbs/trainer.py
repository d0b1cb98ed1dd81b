"""`rods trainer`: any program can take the trainer's part (rods.console.foreign_trainer) in a run
folder, which is made here from a configuration or from another run."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from rods.buffers.checkpoints import Checkpoints
from rods.buffers.lifecycle import extend as lengthen, fork as forked
from rods.buffers.run.run import Run
from rods.buffers.state import starts_of
from rods.canonical import JsonObject, present
from rods.commands import Json, check_libraries
from rods.config import parse_config, read_config
from rods.console import api, foreign_trainer
from rods.console.output import ConfigFile, RunFolder, Steps, estimated, print_json, print_result
from rods.errors import UserError, say


def new(run: RunFolder, /, *, config: ConfigFile, as_json: Json = False) -> None:
    """Create a run folder from a configuration: its identity, its tasks and its random seeds are
    fixed here.

    When a run of the same identity is already there, it is left as it is.
    """
    fresh = api.open_run(run, config)
    print_result(
        as_json,
        {
            "run": str(run),
            "originals": len(fresh.training),
            "held_out": len(fresh.held_out),
            "manifest": fresh.manifest,
        },
        f"{run}: {len(fresh.training)} original tasks, {len(fresh.held_out)} held out; "
        f"{_started(fresh)}",
        (f"  note: {note}" for note in _notes(fresh)),
    )


def _started(run: Run) -> str:
    external = run.config.policy.kind == "external"
    return "a program of your own trains it" if external else f"start it with `rods up {run.path}`"


def _notes(run: Run) -> Iterator[str]:
    yield from run.manifest["warnings"]
    try:
        check_libraries(run.config.policy.kind)
    except UserError as error:  # another machine may train it, or another program
        yield str(error)


def fork(
    run: RunFolder,
    new: Path,
    /,
    *,
    config: ConfigFile = None,
    weights: bool = False,
    as_json: Json = False,
) -> None:
    """Start a new run from another one's originals and active variants, with empty logs.

    With --config the new run gets another identity; otherwise it has the old one's. Where a world
    has changed since, its tasks are replayed: those that still hold are taken along for the world
    as it is, the others are listed.

    Args:
        new: The folder of the new run.
        weights: Take the policy of the newest checkpoint along.
    """
    old = Run.open(run)
    newest = Checkpoints(run).newest(starts_of(run).keeps) if weights else None
    if weights and newest is None:
        raise UserError(
            "has no checkpoint yet", where=run, remedy="leave out --weights, or train it first"
        )
    fresh = forked(old, new, read_config(config) if config else None)
    if newest is not None:
        Checkpoints(new).adopt(newest)
    step = newest.position.step if newest else None
    policy = "" if step is None else f" and the policy of step {step}"
    tasks = len(fresh.training)
    parent = fresh.manifest["parent"]
    renewed = len(parent["renewed"])
    left_out = parent["left_out"]
    print_result(
        as_json,
        {"run": str(new), "parent": parent, "tasks": tasks, "weights_of_step": step},
        f"{new}: {tasks} training tasks{policy} from {run}; {_started(fresh)}",
        [f"  {renewed} tasks were replayed in the world as it is, and hold"] if renewed else [],
        [f"  {len(left_out)} were left out, since they hold no more:"] if left_out else [],
        (
            f"    {left['task']} ({left['origin']}, {left['split']}): {left['why']}"
            for left in left_out
        ),
    )


def extend(
    run: RunFolder, /, *, config: ConfigFile = None, steps: Steps = None, as_json: Json = False
) -> None:
    """Let a run go on longer: more steps, more epochs of its last stage, a further stage. Stop its
    processes first.

    With --config the run ends as that configuration says, which may differ in training.steps and
    curriculum.stages alone; later starts with a --config need one that agrees.
    """
    changes = lengthened(run, config, steps)
    print_result(
        as_json,
        {"run": str(run), "changes": changes},
        f"{run}: {'; '.join(changes) or 'ends so already'}; `rods up {run}` goes on",
    )


def lengthened(run: Path, config: Path | None, steps: int | None) -> list[str]:
    """Lets `run` end as a configuration says, or after so many steps; what is different
    (rods.buffers.lifecycle)."""
    if (config is None) == (steps is None):
        raise UserError(
            "one of --config and --steps says how long the run is to be",
            remedy="give --steps NUMBER for a run that is there; a new one has training.steps in "
            "its --config FILE",
        )
    opened = Run.open(run)
    if config is not None:
        return lengthen(opened, read_config(config))
    values = opened.config.model_dump(mode="json")
    values["training"]["steps"] = steps
    return lengthen(opened, parse_config(values, where="--steps"))


def merge(
    run: RunFolder, /, *, epoch: NonNegativeInt, stage: int | None = None, as_json: Json = False
) -> None:
    """Play the trainer: merge staging into the pool and print the epoch's tasks in visiting order.

    Prints one JSON object a line, {"role": "active" or "retest", "task": {…}}; with --json one
    object with all of them, the counts and the order's hash.

    Args:
        epoch: The epoch to open, from 0; an open one is printed again as it was recorded.
        stage: Its curriculum stage, from 1. Default: the configuration's.
    """
    opened = foreign_trainer.merge(run, epoch=epoch, stage=stage)
    record = opened.made
    slots = [{"role": role, "task": task.as_json()} for role, task in opened.tasks]
    if as_json:
        print_json(
            {
                "epoch": record.number,
                "stage": record.stage,
                "step": record.step,
                "recorded": record.recorded,
                **present(interface=opened.interface),
                "reward": opened.reward,
                "counts": record.counts,
                "order": record.order_hash,
                "slots": slots,
            }
        )
        return
    for slot in slots:
        print_json(slot)
    counts = ", ".join(f"{count} {name}" for name, count in record.counts.items())
    say(f"epoch {record.number}, stage {record.stage}: {counts}", aside=True)


def observe(
    run: RunFolder,
    /,
    *,
    from_step: Annotated[int | None, Parameter(name="--from-step")] = None,
    as_json: Json = False,
) -> None:
    """Play the trainer: read groups of rollouts and {"end_step": s} from standard input, one JSON
    object a line.

    Answers each closed step once it is on the disk. An identical step that was there already is
    answered too, with "recorded" false; a different one is refused with exit code 3.

    Args:
        from_step: Go back to this step: later ones no longer count. Default: the last.
    """
    for answer in foreign_trainer.observe(
        run, sys.stdin.buffer, from_step=from_step, source="standard input"
    ):
        done = "recorded" if answer.get("recorded", True) else "was recorded already"
        what = (
            f"held-out progress {answer['held_out']:.3f} of step {answer['step']}"
            if "held_out" in answer
            else f"step {answer['step']} of epoch {answer['epoch']}"
        )
        print_result(as_json, answer, f"{what} {done} (attempt {answer['attempt']})")


def score(
    run: RunFolder,
    /,
    *policy: Annotated[str, Parameter(allow_leading_hyphen=True)],
    step: int | None = None,
    as_json: Json = False,
) -> None:
    """Score the run's policy on its held-out tasks, at the start and at the end, paired over the
    same tasks.

    Scores are kept in eval/; a checkpoint is scored once. Hints and augmented feedback are never
    shown here.

    Args:
        policy: After --: what another program has trained, as options of `rods eval run`: --url
            ADDRESS --model NAME, or --weights FOLDER. It is scored as that of --step; default: the
            last one on record.
        step: Score the checkpoint of this step only. Default: start and end, paired.
    """
    scores = api.score(run, step, policy)
    end = scores.get("end")  # none where only one step was asked for
    alone = scores.get("start") == end
    print_result(as_json, scores, _scored(end or scores) if alone else _compared(scores))


def _scored(scores: JsonObject) -> Iterator[str]:
    from rods.evaluation import card

    progress = estimated(scores["progress"])
    binary = estimated(scores["binary"])
    broken = scores["broken"]
    lost = (
        f"; {broken} rollouts broke and do not count (remove {scores['file']} to score again)"
        if broken
        else ""
    )
    yield f"step {scores['step']}: progress {progress}, all turns {binary}{lost}"
    yield from card.lines(scores["card"], scores["progress"]["tasks"])


def _compared(scores: JsonObject) -> Iterator[str]:
    from rods.evaluation import card
    from rods.evaluation.scoring import compared_sentence

    yield compared_sentence(scores)
    by_type = [scores[end]["progress_by_type"] for end in ("start", "end")]
    for name in sorted({name for types in by_type for name in types}):
        # Infrastructure failures may leave a type without a score at one end.
        start, end = (
            estimated(types[name]) if name in types else "not scored" for types in by_type
        )
        yield f"  {name:13} {start} → {end}"
    yield from card.lines(scores["end"]["card"], scores["difference"]["progress"]["tasks"])
    if scores["cards_differ"]:
        fields = ", ".join(scores["cards_differ"])
        yield (
            f"  NOT ALIKE: start and end differ in {fields}; remove both from eval/ and score again"
        )
