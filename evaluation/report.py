"""The scores of an evaluation: official, strict and progress, with 95 % intervals over tasks; and their check against
the benchmark's own scorer. Verdicts are computed from the recorded outputs each time. Scores are given for the 400
held-out tasks of the papers and for the 300 of them that no transition between curriculum stages uses."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from rods.errors import UserError
from rods.evaluation import card
from rods.evaluation.benchmarks import Benchmark, Judged, played
from rods.evaluation.card import different
from rods.evaluation.folder import PARTS, Episode, Part, cards, episodes, load_settings, recorded_settings
from rods.evaluation.scoring import differences, mean, rollout_scores, share, too_few
from rods.observations import Rollout

SHOWN = 20  # differences from the official scorer that are listed
MEASURES = ("official", "strict", "progress")
COLUMNS: tuple[Part, ...] = ("held-out", "test", "train")
_NAMES = {
    "all": "the file's tasks",
    "held-out": "held-out (the papers' 400)",
    "test": "unseen by any stage (300)",
    "train": "training tasks",
}


def report(folder: Path) -> dict[str, Any]:
    """The scores of the evaluation in `folder` from its recorded episodes. Raises UserError, RefusedError."""
    settings, benchmark = load_settings(folder), played(folder)
    done, means, known = list(episodes(folder)), per_task(folder), cards(folder)
    about: dict[str, Any] = {"settings": recorded_settings(folder)}
    if benchmark is None:
        tasks = (settings.tasks or {})["count"]
        types = {episode.task: episode.result["type"] for episode in sorted(done, key=lambda one: one.result["type"])}
        about["scores"] = {"all": _table(means, types)} if done else {}
    else:
        chosen = {task.provenance["id"]: task for task in settings.choose(benchmark.tasks())}
        tasks, done = len(chosen), [episode for episode in done if episode.task in chosen]
        scored = {name: task for name, task in chosen.items() if name in means["progress"]}
        parts = {
            part: {name: task.type for name, task in scored.items() if task.split in PARTS[part]} for part in COLUMNS
        }
        about |= benchmark.identity()
        about["scores"] = {part: _table(means, types) for part, types in parts.items() if types}
        about["results"] = str(folder / benchmark.name)
    return {
        "folder": str(folder),
        **about,
        "episodes": len(done),
        "expected": tasks * settings.samples,
        "complete": len(done) == tasks * settings.samples,
        "ends": dict(Counter(episode.end for episode in done)),
        "cut_outputs": sum(episode.cut for episode in done),
        "card": known[-1] if known else None,
        "cards_differ": sorted({name for pair in pairwise(known) for name in different(*pair)}),
    }


def _table(means: Mapping[str, Mapping[str, float]], types: Mapping[str, str]) -> dict[str, Any]:
    """The measures of the tasks in `types` (by name), by type and over all."""
    return {
        kind: {
            measure: share([scores[name] for name, own in types.items() if kind in (own, "all")]).as_json()
            for measure, scores in means.items()
        }
        for kind in [*dict.fromkeys(types.values()), "all"]
    }


def compare(before: Path, after: Path) -> dict[str, Any]:
    """Two evaluations of the same tasks, after − before in pairs by task: {"differences": by measure, "left_out",
    "cards_differ"}. Raises UserError where no task was played in both, RefusedError for other data."""
    old, new = per_task(before), per_task(after)
    pairs = differences(old, new)
    if not pairs:
        raise UserError("no task was played in both", where=f"{before}, {after}", remedy="evaluate the same tasks")
    last = [known[-1] if (known := cards(folder)) else None for folder in (before, after)]
    return {
        "before": str(before),
        "after": str(after),
        "differences": pairs,
        "left_out": len(old["progress"].keys() ^ new["progress"].keys()),
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
    benchmark = played(folder)
    if benchmark is None:
        rollouts: dict[str, list[Rollout]] = defaultdict(list)
        for episode in episodes(folder):
            rollouts[episode.task].append(Rollout.from_json(episode.result["rollout"]))
        return rollout_scores(rollouts)
    judged: dict[str, list[Judged]] = defaultdict(list)
    for (task, _), verdict in _verdicts(folder, benchmark).items():
        judged[task].append(verdict)
    return {
        measure: {task: mean([float(getattr(one, measure)) for one in samples]) for task, samples in judged.items()}
        for measure in MEASURES
    }


def _verdicts(folder: Path, benchmark: Benchmark) -> dict[tuple[str, int], Judged]:
    """Our verdict on every recorded episode, by the benchmark's id and sample."""
    by_name = {task.provenance["id"]: task for task in benchmark.tasks()}
    return {episode.key: benchmark.judge(by_name[episode.task], episode) for episode in episodes(folder)}


def write_results(folder: Path) -> list[tuple[int, list[Path]]]:
    """Writes the recorded episodes as the benchmark's result files, a folder a sample; returns sample and files."""
    settings, benchmark = load_settings(folder), played(folder)
    if benchmark is None:
        return []  # its tools know its own tasks alone
    samples: dict[int, list[Episode]] = defaultdict(list)
    for episode in episodes(folder):
        samples[episode.sample].append(episode)
    place = folder / benchmark.name
    return [
        (sample, benchmark.write(place / (f"result_{sample}" if sample else "result"), settings, found))
        for sample, found in sorted(samples.items())
    ]


def lines(found: Mapping[str, Any]) -> list[str]:
    """The report as text."""
    settings = found["settings"]
    if tasks := settings.get("tasks"):
        data = f"{tasks['count']} tasks ({tasks['hash']}), environments {', '.join(tasks['environments'])}"
    else:
        benchmark = played(Path(found["folder"]))
        assert benchmark is not None, "tasks of no file are a benchmark's"
        data = benchmark.about(found)
    calls = "native tool calls" if settings["form"] == "native" else "prompt mode"
    shown = [
        f"{settings['policy'].get('name', '?')}: {data}",
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


def check(folder: Path, package: Path | None = None) -> dict[str, Any]:
    """Both verdicts on every recorded episode: {"episodes", "valid", "equal", "different": [[id, sample, ours], …]}.
    `package` is the file whose scorer is asked (default: the pinned one). Raises RefusedError for another version than
    the outputs belong to, UserError for a folder that is no evaluation on a benchmark."""
    settings, benchmark = load_settings(folder), played(folder)
    if benchmark is None:
        remedy = "a benchmark's scorer knows its own tasks alone"
        raise UserError("is no evaluation on a benchmark", where=str(folder), remedy=remedy)
    ours = {key: judged.official for key, judged in _verdicts(folder, benchmark).items()}
    theirs = benchmark.scored(write_results(folder), settings.results_form, package)
    different = [[*key, ours[key]] for key in sorted(ours) if ours[key] != theirs.get(key)]
    return {
        "data": benchmark.identity()["data"],
        "episodes": len(ours),
        "valid": sum(theirs.values()),
        "equal": len(ours) - len(different),
        "different": different[:SHOWN],
    }


def _cell(estimate: Mapping[str, Any]) -> str:
    interval = estimate["interval"]
    shown = f"{100 * estimate['mean']:.1f}"
    return f"{shown:>6} [{100 * interval[0]:5.1f}, {100 * interval[1]:5.1f}]" if interval else f"{shown:>6}" + " " * 15
