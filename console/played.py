"""Has tasks played by a policy that options of `rods eval run` name: an endpoint, a folder of
weights, a checkpoint. The held-out tasks of a run, too, whose policy another program trains."""

import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rods.buffers.log.disk import replace
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EVALUATION
from rods.buffers.state import read_state
from rods.canonical import JsonObject
from rods.console.main import programs
from rods.episode.engine import Trace
from rods.errors import RodsError, UserError
from rods.evaluation.card import Card
from rods.evaluation.heldout import held_out_of, keep, scored_trace
from rods.functions import named_function
from rods.tasks import task_lines


def traces_of(file: Path, options: Sequence[str]) -> tuple[dict[str, list[Trace]], Card | None]:
    """The episodes of the tasks in `file` by their ids, played in a folder beside it, and their
    card. What was played stays there: the same options go on with it. Raises UserError where
    nothing evaluates, RodsError where it was not played to its end."""
    if "eval" not in programs():
        raise UserError(
            "nothing that is installed plays tasks", remedy="install the folder that evaluates"
        )
    program = programs()["eval"][0].replace(".__main__:main", ".main:run")
    evaluate: Callable[[list[str]], int] = named_function(program, where="rods eval")
    own = file.with_suffix("")
    with contextlib.redirect_stdout(sys.stderr):
        code = evaluate(["run", str(own), "--tasks", str(file), *options])
    if code:
        stopped = RodsError(
            f"{own} is not played to its end, as said above → mend that, or remove the folder to "
            "begin anew with other options"
        )
        stopped.exit_code = code
        raise stopped
    traces: dict[str, list[Trace]] = {}
    card = None
    for record in map(json.loads, (own / "episodes.jsonl").read_bytes().splitlines()):
        if record["kind"] == "episode":
            trace = Trace.from_json(json.loads(record["result"])["trace"])
            traces.setdefault(record["task"], []).append(trace)
        card = record.get("card", card)
    return traces, card


def score(path: Path, step: int | None, options: Sequence[str]) -> JsonObject:
    """Scores a policy whose weights the run in `path` does not hold on its held-out tasks, as that
    of `step` (None: its last). Raises UserError, and as `traces_of` does."""
    run = Run.open(path)
    state = read_state(run)
    step = state.last_step if step is None else step
    config = run.config
    if config.policy.kind != "external":
        what = "no other program trains its policy"
        raise UserError(what, where=path, remedy="leave out what follows --")
    if not 0 <= step <= state.last_step:
        remedy = f"name one from 0 to {state.last_step}"
        raise UserError(f"step {step} has not been trained", where=path, remedy=remedy)
    limits = config.rollouts
    given = [
        f"--samples={config.training.heldout_rollouts}",
        f"--temperature={limits.temperature}",
        f"--top-p={limits.top_p}",
        f"--max-tokens={limits.max_reply_tokens}",
        f"--protocol={config.policy.dialect}",
        "--trust",
        *options,
    ]
    file = path / EVALUATION / f"played_step_{step:08d}_a{state.attempt}.jsonl"
    file.parent.mkdir(exist_ok=True)
    replace(file, task_lines(held_out_of(run)))
    traces, card = traces_of(file, given)
    played = [
        (task, [scored_trace(task, trace, run.players) for trace in traces[task.id]])
        for task in run.held_out
        if task.id in traces
    ]
    return keep(run, step, state.attempt, played, card)
