"""What an evaluation has found: the official score, the strict one, and progress, with 95 % intervals over tasks.

Verdicts are made from the recorded outputs each time, never stored. The 400 held-out tasks of the papers and the 300
of them that no transition between curriculum stages has seen stand side by side.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.bfcl import results, traces
from evaluation.bfcl.judging import Judge, Judged
from evaluation.journal import Episode, episodes
from evaluation.scoring import estimate, share
from evaluation.settings import PARTS, Part, load, recorded
from rods.tasks import Task
from worlds.bfcl.tasks import tasks as bfcl_tasks
from worlds.bfcl.world import environment

RESULTS = "bfcl"  # the folder of BFCL's result files
MEASURES = {"official": share, "strict": share, "progress": estimate}
COLUMNS: tuple[Part, ...] = ("held-out", "test", "train")
_NAMES = {"held-out": "held-out (the papers' 400)", "test": "unseen by any stage (300)", "train": "training tasks"}


def report(folder: Path) -> dict[str, Any]:
    """The scores of the evaluation in `folder` from its recorded episodes. Raises UserError, RefusedError."""
    settings = load(folder)
    bfcl = environment()
    chosen = settings.choose(bfcl_tasks())
    judge = Judge(bfcl)
    by_name = {task.provenance["id"]: task for task in chosen}
    found = [episode for episode in episodes(folder) if episode.task in by_name]
    judged = _judged(judge, by_name, found)
    expected = len(chosen) * settings.samples
    return {
        "folder": str(folder),
        "data": results.data_version(),
        "environment": bfcl.hash,
        "settings": recorded(folder),
        "episodes": len(found),
        "expected": expected,
        "complete": len(found) == expected,
        "scores": {part: scores for part in COLUMNS if (scores := _scores(part, chosen, judged))},
        "ends": dict(Counter(episode.end for episode in found)),
        "cut_outputs": sum(episode.cut for episode in found),
        "results": str(folder / RESULTS),
    }


def verdicts(folder: Path) -> dict[tuple[str, int], Judged]:
    """Our verdict on every recorded episode, by BFCL's id and sample."""
    judge = Judge(environment())
    by_name = {task.provenance["id"]: task for task in bfcl_tasks()}
    return {episode.key: _judge(judge, by_name[episode.task], episode) for episode in episodes(folder)}


def write_results(folder: Path) -> list[tuple[int, list[Path]]]:
    """Writes the recorded episodes as BFCL's result files, a folder a sample; returns sample and files."""
    settings = load(folder)
    samples: dict[int, list[tuple[str, Any]]] = defaultdict(list)
    for episode in episodes(folder):
        samples[episode.sample].append((episode.task, _official_result(episode)))
    return [
        (sample, results.write(_samples(folder, sample), settings.policy["name"], found, settings.results_form))
        for sample, found in sorted(samples.items())
    ]


def lines(found: Mapping[str, Any]) -> list[str]:
    """What a person reads."""
    data, settings = found["data"], found["settings"]
    calls = "native tool calls" if settings["form"] == "native" else "prompt mode"
    shown = [
        f"{settings['policy'].get('name', '?')}: BFCL multi-turn, data of {data['package']} {data['version']} "
        f"(sha256 {data['sha256'][:12]}…), environment {found['environment']}",
        f"protocol {settings['protocol']}, {calls}, documents {settings['documents']}, {settings['samples']} "
        f"sample(s) a task, temperature {settings['temperature']:g}",
    ]
    if not settings["policy"].get("states_data", True):
        shown.append(
            "the recorded outputs do not say which data they belong to; only questions in their logs were compared"
        )
    for part, scores in found["scores"].items():
        shown.append(f"\n{_NAMES[part]:32}{'tasks':>7}  {'official':^22}  {'strict':^22}  {'progress':^22}")
        for kind, row in scores.items():
            cells = "  ".join(_cell(row[measure]) for measure in MEASURES)
            shown.append(f"  {kind:30}{row['official']['tasks']:>7}  {cells}")
    ends = ", ".join(f"{name} {count}" for name, count in sorted(found["ends"].items()))
    shown.append(f"\n{found['episodes']} of {found['expected']} episodes ({ends or 'none'})")
    if found["cut_outputs"]:
        shown.append(
            f"{found['cut_outputs']} outputs were cut at {settings['max_tokens']} tokens and taken as they were"
        )
    if context := found["ends"].get("context"):
        shown.append(
            f"{context} episodes failed because prompt and {settings['max_tokens']} tokens did not fit the context"
        )
    if length := found["ends"].get("length"):
        shown.append(f"{length} episodes failed because an output was cut at {settings['max_tokens']} tokens")
    if not found["complete"]:
        shown.append("INCOMPLETE: these are the scores of the tasks that are there")
    return shown


def _samples(folder: Path, sample: int) -> Path:
    return folder / RESULTS / (f"result_{sample}" if sample else "result")


def _judged(judge: Judge, tasks: Mapping[str, Task], found: Iterable[Episode]) -> dict[str, list[Judged]]:
    by_task: dict[str, list[Judged]] = defaultdict(list)
    for episode in found:
        by_task[episode.task].append(_judge(judge, tasks[episode.task], episode))
    return by_task


def _judge(judge: Judge, task: Task, episode: Episode) -> Judged:
    return judge.judge(task, traces.scored_turns(episode.result, episode.end), episode.form)


def _official_result(episode: Episode) -> Any:
    """What the harness would have written: where a prompt no longer fits it keeps the error alone."""
    if episode.end in traces.CUT:
        return f"Error during inference: the episode ended early ({episode.end})"
    return episode.result


def _scores(part: Part, tasks: Sequence[Task], judged: Mapping[str, list[Judged]]) -> dict[str, Any]:
    """The measures of the tasks of `part`, by type and over all; none when there is nothing."""
    rows: dict[str, list[list[Judged]]] = defaultdict(list)
    for task in tasks:
        name = task.provenance["id"]
        if task.split in PARTS[part] and name in judged:
            rows[task.type].append(judged[name])
            rows["all"].append(judged[name])
    return {
        kind: {
            measure: interval([_mean(one, measure) for one in rows[kind]]).as_json()
            for measure, interval in MEASURES.items()
        }
        for kind in [*(kind for kind in rows if kind != "all"), "all"]
        if rows[kind]
    }


def _mean(samples: Sequence[Judged], measure: str) -> float:
    return math.fsum(float(getattr(one, measure)) for one in samples) / len(samples)


def _cell(estimate: Mapping[str, Any]) -> str:
    interval = estimate["interval"]
    shown = f"{100 * estimate['mean']:.1f}"
    return f"{shown:>6} [{100 * interval[0]:5.1f}, {100 * interval[1]:5.1f}]" if interval else f"{shown:>6}" + " " * 15
