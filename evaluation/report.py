"""The scores of an evaluation: official, strict and progress, with 95 % intervals over tasks; and their check against
BFCL's own scorer, which judges the same outputs in a process of its own.

Verdicts are computed from the recorded outputs each time, never stored. Scores are given for the 400 held-out tasks of
the papers and for the 300 of them that no transition between curriculum stages uses.
"""

from __future__ import annotations

import hashlib
import math
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from evaluation import card
from evaluation.bfcl import results
from evaluation.bfcl.judging import EpisodeJudge, Judged
from evaluation.bfcl.parity import official
from evaluation.card import different
from evaluation.folder import PARTS, Episode, Part, cards, episodes, load_settings, recorded_settings
from evaluation.scoring import paired, rollout_scores, share, too_few
from rods.errors import UserError
from rods.files import read_regular
from rods.observations import Rollout
from rods.tasks import Task
from worlds.bfcl import wheel
from worlds.bfcl.tasks import tasks as bfcl_tasks
from worlds.bfcl.world import environment

SHOWN = 20  # differences from the official scorer that are listed
RESULTS = "bfcl"  # the folder of BFCL's result files
MEASURES = ("official", "strict", "progress")
COLUMNS: tuple[Part, ...] = ("held-out", "test", "train")
_VERSION = re.compile(r"^Version: (\S+)$", re.MULTILINE)
_NAMES = {
    "all": "the file's tasks",
    "held-out": "held-out (the papers' 400)",
    "test": "unseen by any stage (300)",
    "train": "training tasks",
}


def report(folder: Path) -> dict[str, Any]:
    """The scores of the evaluation in `folder` from its recorded episodes. Raises UserError, RefusedError."""
    settings = load_settings(folder)
    if settings.tasks is not None:
        played = list(episodes(folder))
        scores = {"all": _task_scores(played)} if played else {}
        whole = {"settings": recorded_settings(folder), "scores": scores}
        return _report(folder, whole, played, settings.tasks["count"] * settings.samples)
    bfcl = environment()
    chosen = settings.choose(bfcl_tasks())
    judge = EpisodeJudge(bfcl)
    by_name = {task.provenance["id"]: task for task in chosen}
    found = [episode for episode in episodes(folder) if episode.task in by_name]
    judged: dict[str, list[Judged]] = defaultdict(list)
    for episode in found:
        judged[episode.task].append(_judge(judge, by_name[episode.task], episode))
    about = {
        "data": results.data_version(),
        "environment": bfcl.hash,
        "settings": recorded_settings(folder),
        "scores": {part: scores for part in COLUMNS if (scores := _scores(part, chosen, judged))},
        "results": str(folder / RESULTS),
    }
    return _report(folder, about, found, len(chosen) * settings.samples)


def _report(folder: Path, about: dict[str, Any], found: Sequence[Episode], expected: int) -> dict[str, Any]:
    known = cards(folder)
    return {
        "folder": str(folder),
        **about,
        "episodes": len(found),
        "expected": expected,
        "complete": len(found) == expected,
        "ends": dict(Counter(episode.end for episode in found)),
        "cut_outputs": sum(episode.cut for episode in found),
        "card": known[-1] if known else None,
        "cards_differ": sorted({name for pair in pairwise(known) for name in different(*pair)}),
    }


def compare(before: Path, after: Path) -> dict[str, Any]:
    """The scores of two evaluations of the same tasks, after − before in pairs by task: {"differences": by measure,
    "left_out", "cards_differ"}. Raises UserError where no task was played in both, RefusedError for other data."""
    one, other = per_task(before), per_task(after)
    differences: dict[str, Any] = {}
    for measure in (name for name in one if name in other):
        both = sorted(one[measure].keys() & other[measure].keys())
        if both:
            pairs = ({task: scores[measure][task] for task in both} for scores in (one, other))
            differences[measure] = paired(*pairs).as_json()
    if not differences:
        raise UserError("no task was played in both", where=f"{before}, {after}", remedy="evaluate the same tasks")
    last = [found[-1] if (found := cards(folder)) else None for folder in (before, after)]
    return {
        "before": str(before),
        "after": str(after),
        "differences": differences,
        "left_out": len(one["progress"].keys() ^ other["progress"].keys()),
        "cards_differ": different(*last),
    }


def compared_lines(found: Mapping[str, Any]) -> list[str]:
    """`compare` as text."""
    shown = [f"{found['after']} less {found['before']}, in pairs by task"]
    for measure, one in found["differences"].items():
        interval = one["interval"]
        span = f" [{interval[0]:+.3f}, {interval[1]:+.3f}]" if interval else ""
        few = too_few(one["tasks"])
        shown.append(f"  {measure:10}{one['mean']:+.3f}{span}, {one['tasks']} tasks" + (f" ({few})" if few else ""))
    if found["left_out"]:
        shown.append(f"{found['left_out']} tasks were played in one of them alone, and are left out")
    if found["cards_differ"]:
        shown.append(f"NOT ALIKE: the two differ in {', '.join(found['cards_differ'])}, not in the policy alone")
    return shown


def per_task(folder: Path) -> dict[str, dict[str, float]]:
    """The mean over the samples of each task, by measure and task."""
    if load_settings(folder).tasks is not None:
        return rollout_scores(_rollouts(episodes(folder)))
    judged: dict[str, list[Judged]] = defaultdict(list)
    for (task, _), verdict in verdicts(folder).items():
        judged[task].append(verdict)
    return {measure: {task: _mean(each, measure) for task, each in judged.items()} for measure in MEASURES}


def _rollouts(found: Iterable[Episode]) -> dict[str, list[Rollout]]:
    played: dict[str, list[Rollout]] = defaultdict(list)
    for episode in found:
        played[episode.task].append(Rollout.from_json(episode.result["rollout"]))
    return played


def _task_scores(found: Sequence[Episode]) -> dict[str, Any]:
    """The measures of tasks of a file by type and over all."""
    types = {episode.task: episode.result["type"] for episode in found}
    means = rollout_scores(_rollouts(found))
    return {
        kind: {
            measure: share([value for task, value in each.items() if kind in (types[task], "all")]).as_json()
            for measure, each in means.items()
        }
        for kind in [*sorted(set(types.values())), "all"]
    }


def verdicts(folder: Path) -> dict[tuple[str, int], Judged]:
    """Our verdict on every recorded episode, by BFCL's id and sample."""
    judge = EpisodeJudge(environment())
    by_name = {task.provenance["id"]: task for task in bfcl_tasks()}
    return {episode.key: _judge(judge, by_name[episode.task], episode) for episode in episodes(folder)}


def write_results(folder: Path) -> list[tuple[int, list[Path]]]:
    """Writes the recorded episodes as BFCL's result files, a folder a sample; returns sample and files."""
    settings = load_settings(folder)
    if settings.tasks is not None:
        return []  # BFCL's tools know BFCL's tasks alone
    samples: dict[int, list[tuple[str, Any]]] = defaultdict(list)
    for episode in episodes(folder):
        samples[episode.sample].append((episode.task, _official_result(episode)))
    return [
        (sample, results.write(_samples(folder, sample), settings.policy["name"], found, settings.results_form))
        for sample, found in sorted(samples.items())
    ]


def lines(found: Mapping[str, Any]) -> list[str]:
    """The report as text."""
    settings = found["settings"]
    calls = "native tool calls" if settings["form"] == "native" else "prompt mode"
    shown = [
        f"{settings['policy'].get('name', '?')}: {_data(found)}",
        f"protocol {settings['protocol']}, {calls}, documents {settings['documents']}, {settings['samples']} "
        f"sample(s) a task, temperature {settings['temperature']:g}",
    ]
    if not settings["policy"].get("states_data", True):
        shown.append(
            "the recorded outputs do not say which data they belong to; only questions in their logs were compared"
        )
    for part, scores in found["scores"].items():
        measures = list(scores["all"])
        shown.append("  ".join([f"\n{_NAMES[part]:32}{'tasks':>7}", *(f"{name:^22}" for name in measures)]))
        for kind, row in scores.items():
            cells = "  ".join(_cell(row[measure]) for measure in measures)
            shown.append(f"  {kind:30}{row['progress']['tasks']:>7}  {cells}")
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
    over = max((scores["all"]["progress"]["tasks"] for scores in found["scores"].values()), default=0)
    shown += card.lines(found["card"], over)
    if found["cards_differ"]:
        shown.append(f"NOT ALIKE: episodes of this folder differ in {', '.join(found['cards_differ'])}")
    if not found["complete"]:
        shown.append("INCOMPLETE: these are the scores of the tasks that are there")
    return shown


def check(folder: Path, wheel_file: Path | None = None) -> dict[str, Any]:
    """Both verdicts on every recorded episode: {"episodes", "valid", "equal", "different": [[id, sample, ours], …]}.

    `wheel_file` is the wheel whose scorer is asked (default: the pinned one); another version than the outputs belong
    to is refused (RefusedError). Raises UserError for a folder that is no evaluation.
    """
    settings = load_settings(folder)
    if settings.tasks is not None:
        raise UserError("is no evaluation on BFCL", where=str(folder), remedy="BFCL's scorer knows its own tasks alone")
    file = known_wheel(wheel_file)
    form = settings.results_form
    ours = {key: judged.official for key, judged in verdicts(folder).items()}
    theirs: dict[tuple[str, int], bool] = {}
    scorer = official.start(official.SCORER)
    try:
        for sample, files in write_results(folder):
            for path in files:
                category = path.name.removeprefix("BFCL_v4_").removesuffix("_result.json")
                asked = {"form": form, "category": category, "file": str(path)}
                answer = scorer.call({"wheel": str(file), **asked})
                theirs.update({(name, sample): valid for name, valid in answer.items()})
    finally:
        scorer.close()
    different = [[*key, ours[key]] for key in sorted(ours) if ours[key] != theirs.get(key)]
    return {
        "data": results.data_version(),
        "episodes": len(ours),
        "valid": sum(theirs.values()),
        "equal": len(ours) - len(different),
        "different": different[:SHOWN],
    }


def known_wheel(file: Path | None) -> Path:
    """The wheel to ask, by default the pinned one in the cache. Raises RefusedError for another version, UserError for
    what is no wheel of BFCL."""
    if file is None:
        return wheel.path()
    try:
        sha256 = hashlib.sha256(read_regular(file)).hexdigest()
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            version = _VERSION.search(archive.read(names[0]).decode())
    except (OSError, zipfile.BadZipFile, IndexError) as error:
        raise UserError(f"is no wheel ({error})", where=str(file), remedy=f"give one of {wheel.PACKAGE}") from error
    stated = version[1] if version else "of no known version"
    results.check_version({"package": wheel.PACKAGE, "version": stated, "sha256": sha256}, file)
    return file


def _data(found: Mapping[str, Any]) -> str:
    """The tasks of a report in a line."""
    if tasks := found["settings"].get("tasks"):
        return f"{tasks['count']} tasks ({tasks['hash']}), environments {', '.join(tasks['environments'])}"
    data = found["data"]
    wheel_named = f"{data['package']} {data['version']} (sha256 {data['sha256'][:12]}…)"
    return f"BFCL multi-turn, data of {wheel_named}, environment {found['environment']}"


def _samples(folder: Path, sample: int) -> Path:
    return folder / RESULTS / (f"result_{sample}" if sample else "result")


def _judge(judge: EpisodeJudge, task: Task, episode: Episode) -> Judged:
    return judge.judge(task, results.scored_turns(episode.result, episode.end), episode.form)


def _official_result(episode: Episode) -> Any:
    """The result as the harness would have written it: the error alone where an episode ended early."""
    if episode.end in results.CUT:
        return f"Error during inference: the episode ended early ({episode.end})"
    return episode.result


def _scores(part: Part, tasks: Sequence[Task], judged: Mapping[str, list[Judged]]) -> dict[str, Any]:
    """The measures of the tasks of `part` by type and over all; empty where none was judged."""
    rows: dict[str, list[list[Judged]]] = defaultdict(list)
    for task in tasks:
        name = task.provenance["id"]
        if task.split in PARTS[part] and name in judged:
            rows[task.type].append(judged[name])
            rows["all"].append(judged[name])
    return {
        kind: {measure: share([_mean(one, measure) for one in rows[kind]]).as_json() for measure in MEASURES}
        for kind in [*(kind for kind in rows if kind != "all"), "all"]
        if rows[kind]
    }


def _mean(samples: Sequence[Judged], measure: str) -> float:
    return math.fsum(float(getattr(one, measure)) for one in samples) / len(samples)


def _cell(estimate: Mapping[str, Any]) -> str:
    interval = estimate["interval"]
    shown = f"{100 * estimate['mean']:.1f}"
    return f"{shown:>6} [{100 * interval[0]:5.1f}, {100 * interval[1]:5.1f}]" if interval else f"{shown:>6}" + " " * 15
