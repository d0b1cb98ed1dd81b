"""`rods twin` and `rods compare`."""

from collections.abc import Iterator
from glob import escape
from pathlib import Path

from cyclopts.types import PositiveInt

from rods.buffers.lifecycle import extend
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import exists
from rods.buffers.state import read_state
from rods.canonical import JsonObject
from rods.commands import Json
from rods.config import parse_config, read_config
from rods.console.output import (
    ConfigFile,
    FoldersOfRuns,
    RunFolder,
    estimated,
    find_runs,
    print_result,
)
from rods.console.verbs.trainer import lengthened
from rods.console.verbs.up import supervise
from rods.errors import EXIT_OK, EXIT_REQUEUE, UserError, say
from rods.evaluation.scoring import too_few
from rods.family.twins.run_sets import PlayedRollouts, described, over, scored_sets

CHANGES: dict[str, dict[str, dict[str, object]]] = {
    "": {},
    "static": {"selection": {"seeds_per_step": 0}},
    "random": {"selection": {"order": "random"}},
    "refill": {"selection": {"seeds_per_step": 0}, "rollouts": {"refill": 2}},
}
# not that of the data, nor that of the first weights: they are the same in all
VARIED = ("order", "rollouts", "daemon", "drawn")
MADE_UP = "a simulated policy: its rewards follow a formula, so this is evidence for nothing"


def twin(
    run: RunFolder,
    /,
    *,
    static: bool = False,
    random: bool = False,
    refill: bool = False,
    seeds: PositiveInt = 1,
    config: ConfigFile = None,
    only_make: bool = False,
    as_json: Json = False,
) -> int:
    """Does it pay? Make and train, beside a run, the same without what is in question, on the same
    tasks and by as many rollouts; then compare.

    Folders that are there are gone on with, so the same command goes on after Ctrl-C. Exits 5 when
    it was stopped.

    Args:
        static: Without variants: the given tasks alone (where nothing else is asked for).
        random: Seeds of variants drawn by chance, whatever the tasks earn.
        refill: Without variants, and with other tasks in place of groups without signal.
        seeds: Random seeds: so many of the run, its own among them, and so many twins.
        config: The run's configuration, for another [operation] in the twins.
        only_make: Make the folders, and train nothing.
    """
    original = Run.open(run.resolve(), read_config(config) if config else None)
    if not original.held_out:
        raise UserError(
            "has no held-out tasks, so nothing can be compared",
            where=run,
            remedy='give tasks with "split": "validation", and begin a new run',
        )
    wanted = {"static": static or not (random or refill), "random": random, "refill": refill}
    names = ["", *(name for name, asked in wanted.items() if asked)]
    folders = [_made(original, name, number) for number in range(seeds) for name in names]
    if only_make or original.config.policy.kind == "external":
        listed = list(map(str, folders))
        hint = (
            f"train each (`rods up`, or your own program), then `rods compare {' '.join(listed)}`"
        )
        print_result(as_json, {"runs": listed}, listed, hint)
        return EXIT_OK
    for place, path in enumerate(folders):
        # what refills its steps ends with as many rollouts as the run of its random seeds
        like = folders[place - place % len(names)]
        if code := _trained(path, like, as_json):
            return code
    compare(folders, as_json=as_json)
    return EXIT_OK


def _made(original: Run, name: str, number: int) -> Path:
    """The twin of this name ("": as it is), its random seeds moved on by `number`, on the tasks
    that `original` began with; made where it is not there, or let end as `original` does by now."""
    parts = (original.name, name, f"seed{number + 1}" if number else "")
    path = original.path.with_name("-".join(filter(None, parts)))
    if path == original.path:
        return path
    values = original.config.model_dump(mode="json")
    for section, keys in CHANGES[name].items():
        values[section] |= keys
    for seed in VARIED:
        values["random_seeds"][seed] += number
    config = parse_config(values, where=str(path))
    if name and config.selection == original.config.selection:
        raise UserError(
            f"is what {path.name} would be: it writes no variants, or none that are aimed",
            where=original.path,
            remedy="twin a run that writes variants at the boundary",
        )
    if not exists(path):
        parent = {"run": original.name, "path": str(original.path), "twin": name}
        create_run(path, config, original.tasks, parent, [original.path])
    elif not config.rollouts.refill:  # such a one ends early
        extend(Run.open(path), config)
    return path


def _trained(path: Path, like: Path, as_json: bool) -> int:
    """Trains a run to its end; one that refills its steps until it has played as many rollouts as
    the run `like`, and it ends there. The exit code."""
    run = Run.open(path)
    if read_state(run).last_step >= run.config.training.steps:
        return EXIT_OK
    say(f"{path}:", aside=as_json)
    if not run.config.rollouts.refill:
        return supervise(path, None, as_json)
    most = PlayedRollouts(Run.open(like)).total()
    played = PlayedRollouts(run)
    code = supervise(path, None, as_json, lambda: played.total() >= most)
    if code != EXIT_REQUEUE or played.total() < most:
        return code
    lengthened(path, None, read_state(run).last_step)
    return EXIT_OK


def compare(runs: FoldersOfRuns = None, /, *, as_json: Json = False) -> None:
    """Say what a set of runs gained over others in held-out progress, paired by task and by random
    seed.

    Runs that differ in random seeds alone are a set; the first run's set is compared with each of
    the others. One run is compared with the twins beside it. What is not scored yet is scored.
    """
    folders = [
        folder for path in runs or [Path("runs")] for folder in reversed(find_runs([path]).values())
    ]
    if len(folders) == 1:
        named = sorted(folders[0].parent.glob(f"{escape(folders[0].name)}-*"))
        beside = [path for path in named if exists(path)]
        folders += [p for p in beside if "twin" in (Run.open(p).manifest["parent"] or {})]
    first, *others = scored_sets(list(dict.fromkeys(folders))) or [{}]
    if not others:
        raise UserError(
            "nothing to compare: runs of two configurations are needed",
            where=", ".join(map(str, folders)) or "runs",
            remedy="`rods twin RUN` makes and trains what a run is compared with",
        )
    sets = [described(each) for each in (first, *others)]
    differences = [over(first, other) for other in others]
    kinds = {entry.run.config.policy.kind for entry in first.values()}
    note = [f"note: {MADE_UP}"] if "simulated" in kinds else []
    result = {"sets": sets, "over": differences}
    lines = (line for each in differences for line in _over_lines(sets[0], each))
    print_result(as_json, result, map(_set_line, sets), lines, note)


def _set_line(runs: JsonObject) -> str:
    means = ", ".join(f"{mean:.3f}" for mean in runs["progress"])
    played = ", ".join(f"{count:,}" for count in runs["rollouts"])
    unfinished = runs["unfinished"]
    return f"{runs['name']}: {means} on {runs['tasks']} held-out tasks, after {played} rollouts" + (
        f"; NOT FINISHED: {unfinished}, `rods up` goes on" if unfinished else ""
    )


def _over_lines(first: JsonObject, found: JsonObject) -> Iterator[str]:
    pairs = len(found["by_seed"])
    low, high = found["difference"]["interval"] or (-1.0, 1.0)
    tells = low > 0 or high < 0
    of = f"{pairs} random seeds" if pairs > 1 else f"{found['tasks']} held-out tasks"
    yield (
        f"{first['name']} over {found['set']} ({'; '.join(found['changes'])}): "
        f"{estimated(found['difference'], '+')} over {of}: "
        + ("tells them apart" if tells else "does not tell them apart")
    )
    command = f"`rods twin {first['runs'][0]}{found['twin'] and ' --'}{found['twin']} --seeds"
    if pairs == 1:
        yield f"  the interval leaves out the chance of training → {command} 3`"
    elif not tells and found["needed"]:
        yield f"  about {found['needed']} random seeds like these would tell → {command} …`"
    elif not tells:
        yield "  no number of random seeds like these would tell"
    if few := too_few(found["tasks"]):
        yield f"  {few}"
