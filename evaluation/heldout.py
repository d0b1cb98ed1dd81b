"""Held-out scores of a run: its policy at a checkpoint, rolled out on the tasks that it never
trains on.

Scores are kept in `eval/heldout_step_<step>.a<attempt>.jsonl`, one line a rollout, written whole or
not at all; the last line is their card (rods.evaluation.card). A checkpoint is scored once: who
removes its file has it scored again. Rollouts that ended as infrastructure failures are counted and
in no mean. Every checkpoint of a run is scored on the same tasks with the same draws through the
identity interface, so that differences are paired."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import orjson

from rods.buffers.checkpoints import Checkpoint, Checkpoints
from rods.buffers.log.disk import replace
from rods.buffers.run import runfolder
from rods.buffers.run.run import Run
from rods.buffers.state import starts_of
from rods.canonical import JsonObject, frozen, keyed_random
from rods.config import Config
from rods.environments.registry import having
from rods.episode.engine import Trace
from rods.errors import InfrastructureError, UserError
from rods.evaluation import card as cards
from rods.evaluation.scoring import by_task, differences, share
from rods.files import BULK, read_regular
from rods.functions import named_function
from rods.observations import Rollout
from rods.players import Players
from rods.tasks import AnyTask, Task
from rods.trainer import simulated
from rods.trainer.batches import rollout_record

MEASURES = ("progress", "binary", "official")
# rollouts in lock-step; a constant, because the draws of a rollout are keyed by its place in a
# batch
BATCH = 256
Which = Literal["start", "end"] | int


@frozen
class Scored:
    """One rollout. `official` is the benchmark's own verdict, where the task belongs to one: it
    skips turns in which no call is right, while `rollout.binary` demands abstention there."""

    rollout: Rollout
    official: bool | None = None


def score_run(path: Path, which: Which) -> JsonObject:
    """Scores the run in `path` at its first checkpoint, its newest, or the one of a step; the
    summary. Raises UserError when there is no such checkpoint or no held-out task,
    InfrastructureError when every rollout broke."""
    if Run.open(path).config.policy.kind == "external":
        kept = [file for step, file in _files(path).items() if which in ("start", "end", step)]
        if kept:
            return summary(kept[0 if which == "start" else -1])
    run, chosen = checkpoint(path, which)
    step = chosen.position.step
    attempt = chosen.position.attempt
    file = _file(path, step, attempt)
    if not file.exists():
        run.check_environments()
        count = run.config.training.heldout_rollouts
        card = _card(run, chosen, count)
        with run.playing("scoring"):
            rolled_out = roll_out(run.config, chosen.policy, run.players, held_out_of(run), count)
            _write(file, step, attempt, rolled_out, card)
    return summary(file)


def held_out_of(run: Run) -> Sequence[AnyTask]:
    """Those that a score is of. Raises UserError where there are none."""
    if not run.held_out:
        raise UserError(
            "the run has no held-out tasks",
            where=run.path,
            remedy="create a run with data.held_out above 0, or tasks whose `split` is `test`",
        )
    return run.held_out


def keep(
    run: Run,
    step: int,
    attempt: int,
    played: Sequence[tuple[AnyTask, Sequence[Scored]]],
    card: cards.Card | None = None,
) -> JsonObject:
    """Keeps what others have played as the scores of `step`, in place of those that are there; the
    summary. Raises UserError for tasks that are not held out, InfrastructureError when every
    rollout broke."""
    strange = [task.id for task, _ in played if task.split == "train"]
    if strange or not played:
        raise UserError(
            f"not held-out tasks: {', '.join(strange) or 'none was played'}",
            where=run.path,
            remedy="play those of its tasks.jsonl whose `split` is not `train`",
        )
    _write(file := _file(run.path, step, attempt), step, attempt, played, card)
    return summary(file)


def _file(path: Path, step: int, attempt: int) -> Path:
    return path / runfolder.EVALUATION / f"heldout_step_{step:08d}.a{attempt}.jsonl"


def _files(path: Path) -> dict[int, Path]:
    """The files of live scores by their steps, in order; of the last attempt where several scored
    one."""
    live = starts_of(path).keeps
    folder = path / runfolder.EVALUATION
    names = (
        re.fullmatch(r"heldout_step_(\d+)\.a(\d+)\.jsonl", file.name)
        for file in folder.glob("heldout_step_*")
    )
    files = sorted((int(name[1]), int(name[2]), folder / name[0]) for name in names if name)
    return {step: file for step, attempt, file in files if live(attempt, step)}


def _card(run: Run, checkpoint: Checkpoint, count: int) -> cards.Card:
    config = run.config
    jobs = [] if config.policy.kind == "simulated" else [run.episode(task) for task in run.held_out]
    return cards.card(
        run.held_out,
        "held out of the run",
        [cards.shown(job) for job in jobs],
        history="tokens" if jobs else "none",
        template=cards.template_of(checkpoint.policy) if jobs else None,
        random_seeds={"rollouts": config.random_seeds.rollouts, "data": config.data.random_seed},
        sampling={
            "rollouts_per_task": count,
            "temperature": config.rollouts.temperature,
            "top_p": config.rollouts.top_p,
        },
    )


def compare(path: Path) -> JsonObject:
    """Scores start and end and pairs them: {"start", "end", "difference": {"progress", "binary",
    …}, "left_out", "cards_differ"}. `left_out` counts the tasks that one end or both could not
    score; `cards_differ` names what the two ends do not have in common. Raises InfrastructureError
    when no task is left."""
    return _compared(score_run(path, "start"), score_run(path, "end"))


def scored(path: Path) -> JsonObject | None:
    """`compare` from the files that exist, of the first and the last live step that were scored;
    None below two."""
    files = [*_files(path).values()]
    return _compared(summary(files[0]), summary(files[-1])) if len(files) > 1 else None


def _compared(start: JsonObject, end: JsonObject) -> JsonObject:
    files = Path(start["file"]), Path(end["file"])
    before, after = map(per_task, files)
    both = before["progress"].keys() & after["progress"].keys()
    if not both:
        raise InfrastructureError(f"{files[1]}: no task was scored at both ends; score again")
    return {
        "start": start,
        "end": end,
        "difference": differences(before, after),
        "left_out": len({record["task"] for file in files for record in _read(file)[0]} - both),
        "cards_differ": cards.different(start["card"], end["card"]),
    }


def _read(file: Path) -> tuple[list[JsonObject], cards.Card | None]:
    """The rollouts in a file of scores and their card, None in one that was made before there were
    cards."""
    try:
        lines: list[JsonObject] = [
            orjson.loads(line) for line in read_regular(file, BULK).splitlines()
        ]
        records = [record for record in lines if record.keys() != {"card"}]
        for record in records:
            Rollout.from_json(record)
            "".join((record["task"], record["type"], record["version"]))
            sum((record["step"], record["attempt"], record.get("official", 0)))
        card = {**(lines[-1].get("card") or {})} if lines else {}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"holds a line that is no rollout ({error})",
            where=file,
            remedy="move the file aside and score again",
        ) from error
    return records, card or None


def roll_out(
    config: Config, policy: Path, players: Players, tasks: Sequence[AnyTask], count: int
) -> Iterator[tuple[AnyTask, list[Scored]]]:
    """`count` scored rollouts of each of `tasks`, in order, by the policy whose files a checkpoint
    holds in `policy`. Draws depend on the run's random seed for rollouts, the task's place and the
    rollout's index, never on the checkpoint. Raises UserError when the files do not fit."""
    # its chances, drawn like training rollouts but never with their keys
    if config.policy.kind == "simulated":
        simulated_policy = simulated.SimulatedPolicy(config)
        simulated_policy.load(policy)
        for task in tasks:
            chance = simulated.turn_chance(task, simulated_policy.skill)
            keys = [
                (config.random_seeds.rollouts, "held_out", task.id, index) for index in range(count)
            ]
            yield (
                task,
                [Scored(simulated.rollout(task, chance, "progress", *key)) for key in keys],
            )
        return
    from rods.trainer.engines.local import LocalEngine  # torch only where weights are

    engine = LocalEngine.load_alone(policy, config.rollouts, config.operation, config.policy)
    per_batch = max(1, BATCH // count)
    for first in range(0, len(tasks), per_batch):
        part = tasks[first : first + per_batch]
        jobs = [job for task in part for job in [players.scored(task, config)] * count]
        key = keyed_random(config.random_seeds.rollouts, "held_out", first).getrandbits(63)
        samples = engine.rollouts(jobs, random_seed=key)
        for index, task in enumerate(part):
            traces = [sample.trace for sample in samples[index * count : (index + 1) * count]]
            yield task, [scored_trace(task, trace, players) for trace in traces]


def scored_trace(task: AnyTask, trace: Trace, players: Players) -> Scored:
    return Scored(rollout_record(trace, task, "progress", players), _official(task, trace))


def _official(task: AnyTask, trace: Trace) -> bool | None:
    """The verdict of the benchmark that the task belongs to, None where it belongs to none."""
    verdict = having("verdict").get(task.environment.name)
    if verdict is None or not isinstance(task, Task):
        return None
    return bool(
        named_function(verdict, where=f"the verdict on {task.environment.name}")(task, trace)
    )


def summary(file: Path) -> JsonObject:
    """The means of one file of scores with their 95 % intervals over tasks; progress also by type.
    `versions` names the environments and their data, `broken` counts infrastructure failures, which
    are in no mean. Raises InfrastructureError when no rollout counts."""
    records, card = _read(file)
    means = _means(records)
    if not means:
        raise InfrastructureError(
            f"{file}: every rollout met an infrastructure failure; nothing was scored"
        )
    broken = sum(map(_lost, records))
    lost = {"lost": f"{broken / len(records):.1%} broken"} if broken else {}
    types = {record["task"]: record["type"] for record in records}
    progress = [(types[task], value) for task, value in means["progress"].items()]
    by_type = {
        kind: [value for own, value in progress if own == kind] for kind in sorted(dict(progress))
    }
    return {
        "step": records[0]["step"],
        "attempt": records[0]["attempt"],
        "rollouts_per_task": len(records) // len(types),
        **{measure: share(list(values.values())).as_json() for measure, values in means.items()},
        "progress_by_type": {name: share(values).as_json() for name, values in by_type.items()},
        "versions": sorted({record["version"] for record in records}),
        "card": card and {**card, **lost},
        "file": str(file),
        "broken": broken,
    }


def checkpoint(path: Path, which: Which) -> tuple[Run, Checkpoint]:
    """The run in `path` and its first checkpoint, its newest, or the one of a step. Raises
    UserError when there is none, and where another program has the weights."""
    run = Run.open(path)
    checkpoints = Checkpoints(path)
    live = starts_of(path).keeps
    if run.config.policy.kind == "external":
        raise UserError(
            "the policy's weights are with the program that trains it",
            where=path,
            remedy=f"`rods trainer score {path} -- --weights FOLDER`, or serve them and name the "
            "server: `-- --url ADDRESS --model NAME`",
        )
    named = checkpoints.named(live)
    if which == "end":
        chosen = checkpoints.newest(live)
    else:
        step = 0 if which == "start" else which
        chosen = next(
            (item for item in reversed(named) if item.position.step == step and item.intact()), None
        )
    if chosen is None:
        steps = ", ".join(str(item.position.step) for item in named) or "none yet"
        raise UserError(
            f"no checkpoint for {which!r} (there are: {steps})",
            where=path,
            remedy="start `rods-train` on the run first, or name one of these steps",
        )
    return run, chosen


def _write(
    file: Path,
    step: int,
    attempt: int,
    rolled_out: Iterable[tuple[AnyTask, Sequence[Scored]]],
    card: cards.Card | None,
) -> None:
    """Writes one line a rollout and one for the card, all or none. Raises InfrastructureError, and
    writes nothing, when every rollout broke."""
    file.parent.mkdir(exist_ok=True)
    records = [
        {
            "task": task.id,
            "type": task.type,
            "split": task.split,
            "version": cards.version(task),
            "step": step,
            "attempt": attempt,
            "rollout": index,
            **scored.rollout.as_json(),
            **({} if scored.official is None else {"official": int(scored.official)}),
        }
        for task, rollouts in rolled_out
        for index, scored in enumerate(rollouts)
    ]
    if all(map(_lost, records)):
        raise InfrastructureError(
            "every held-out rollout met an infrastructure failure; nothing was scored"
        )
    replace(file, b"".join(orjson.dumps(record) + b"\n" for record in [*records, {"card": card}]))


def _lost(record: JsonObject) -> bool:
    return bool(record["end"] == "infrastructure")


def per_task(file: Path) -> dict[str, dict[str, float]]:
    """The mean of each measure by task, over rollouts without infrastructure failure."""
    return _means(_read(file)[0])


def _means(records: Sequence[JsonObject]) -> dict[str, dict[str, float]]:
    scores = (
        (r["task"], {**r, "progress": r["resolved"] / r["expected"]})
        for r in records
        if not _lost(r)
    )
    return {measure: tasks for measure, tasks in by_task(MEASURES, scores).items() if tasks}
