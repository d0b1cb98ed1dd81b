"""The scores of an evaluation: official, strict and progress, with 95 % intervals over tasks; and their check against
the benchmark's own scorer. Verdicts are computed from the recorded outputs each time. Scores are given for the 400
held-out tasks of the papers and for the 300 of them that no transition between curriculum stages uses."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from rods.console.output import estimated
from rods.errors import UserError
from rods.evaluation import card
from rods.evaluation.scoring import by_task, differences, rollout_scores, share, too_few
from rods.family.benchmarks.benchmarks import Benchmark, Judged, opened
from rods.family.benchmarks.folder import PARTS, Episode, Part, Settings, cards, episodes
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
    """The scores of the evaluation in `folder` from its recorded episodes, whose result files it writes. Raises
    UserError, RefusedError."""
    content, settings, benchmark = opened(folder)
    if benchmark is not None:
        _write_results(folder, settings, benchmark)
    done, means, known = list(episodes(folder)), _per_task(folder, benchmark), cards(folder)
    about: dict[str, Any] = {"settings": content}
    if benchmark is None:
        tasks = (settings.tasks or {})["count"]
        types = {episode.task: episode.result["type"] for episode in sorted(done, key=lambda play: play.result["type"])}
        about["scores"] = {"all": _table(means, types)} if done else {}
    else:
        chosen = {task.provenance["id"]: task for task in settings.choose(benchmark.tasks())}
        tasks, done = len(chosen), [episode for episode in done if episode.task in chosen]
        scored = [task for name, task in chosen.items() if name in means["progress"]]
        parts = {
            part: {task.provenance["id"]: task.type for task in scored if task.split in PARTS[part]} for part in COLUMNS
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
        "cards_differ": sorted({name for pair in pairwise(known) for name in card.different(*pair)}),
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


def lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """The report as text."""
    settings, ends = summary["settings"], summary["ends"]
    if tasks := settings.get("tasks"):
        data = f"{tasks['count']} tasks ({tasks['hash']}), environments {', '.join(tasks['environments'])}"
    else:
        *_, benchmark = opened(Path(summary["folder"]))
        assert benchmark is not None, "tasks of no file are a benchmark's"
        data = benchmark.about(summary)
    calls = "native tool calls" if settings["form"] == "native" else "prompt mode"
    yield f"{settings['policy'].get('name', '?')}: {data}"
    played = f"{settings['samples']} sample(s) a task, temperature {settings['temperature']:g}"
    yield f"protocol {settings['protocol']}, {calls}, documents {settings['documents']}, {played}"
    if not settings["policy"].get("states_data", True):
        yield "the recorded outputs do not say which data they belong to; only questions in their logs were compared"
    for part, scores in summary["scores"].items():
        measures = list(scores["all"])
        yield "  ".join([f"\n{_NAMES[part]:32}{'tasks':>7}", *(f"{name:^22}" for name in measures)])
        for kind, row in scores.items():
            cells = "  ".join(_cell(row[measure]) for measure in measures)
            yield f"  {kind:30}{row['progress']['tasks']:>7}  {cells}"
    counts = ", ".join(f"{name} {count}" for name, count in sorted(ends.items()))
    yield f"\n{summary['episodes']} of {summary['expected']} episodes ({counts or 'none'})"
    most = settings["max_tokens"]
    if summary["cut_outputs"]:
        yield f"{summary['cut_outputs']} outputs were cut at {most} tokens and taken as they were"
    if "context" in ends:
        yield f"{ends['context']} episodes failed because prompt and {most} tokens did not fit the context"
    if "length" in ends:
        yield f"{ends['length']} episodes failed because an output was cut at {most} tokens"
    over = max((scores["all"]["progress"]["tasks"] for scores in summary["scores"].values()), default=0)
    yield from card.lines(summary["card"], over)
    if summary["cards_differ"]:
        yield f"NOT ALIKE: episodes of this folder differ in {', '.join(summary['cards_differ'])}"
    if not summary["complete"]:
        yield "INCOMPLETE: these are the scores of the tasks that are there"


def _cell(estimate: Mapping[str, Any]) -> str:
    mean, interval = f"{100 * estimate['mean']:>6.1f}", estimate["interval"]
    return f"{mean} [{100 * interval[0]:5.1f}, {100 * interval[1]:5.1f}]" if interval else mean + " " * 15


def compare(before: Path, after: Path) -> dict[str, Any]:
    """Two evaluations of the same tasks, after − before in pairs by task: {"differences": by measure, "left_out",
    "cards_differ"}. Raises UserError where no task was played in both, RefusedError for other data."""
    old, new = (_per_task(folder, opened(folder)[-1]) for folder in (before, after))
    pairs = differences(old, new)
    if not pairs:
        raise UserError("no task was played in both", where=f"{before}, {after}", remedy="evaluate the same tasks")
    return {
        "before": str(before),
        "after": str(after),
        "differences": pairs,
        "left_out": len(old["progress"].keys() ^ new["progress"].keys()),
        "cards_differ": card.different(*([None, *cards(folder)][-1] for folder in (before, after))),
    }


def compared_lines(compared: Mapping[str, Any]) -> Iterator[str]:
    """`compare` as text."""
    yield f"{compared['after']} less {compared['before']}, in pairs by task"
    for measure, difference in compared["differences"].items():
        few = f" ({few})" if (few := too_few(difference["tasks"])) else ""
        yield f"  {measure:10}{estimated(difference, '+')}, {difference['tasks']} tasks{few}"
    if compared["left_out"]:
        yield f"{compared['left_out']} tasks were played in one of them alone, and are left out"
    if compared["cards_differ"]:
        yield f"NOT ALIKE: the two differ in {', '.join(compared['cards_differ'])}, not in the policy alone"


def check(folder: Path, package: Path | None = None) -> dict[str, Any]:
    """Both verdicts on every recorded episode: {"episodes", "valid", "equal", "different": [[id, sample, ours], …]}.
    `package` is the file whose scorer is asked (default: the pinned one). Raises RefusedError for another version than
    the outputs belong to, UserError for a folder that is no evaluation on a benchmark."""
    _, settings, benchmark = opened(folder)
    if benchmark is None:
        remedy = "a benchmark's scorer knows its own tasks alone"
        raise UserError("is no evaluation on a benchmark", where=str(folder), remedy=remedy)
    ours = {key: judged.official for key, judged in _verdicts(folder, benchmark).items()}
    theirs = benchmark.scored(_write_results(folder, settings, benchmark), settings.results_form, package)
    different = [[*key, ours[key]] for key in sorted(ours) if ours[key] != theirs.get(key)]
    return {
        "data": benchmark.identity()["data"],
        "episodes": len(ours),
        "valid": sum(theirs.values()),
        "equal": len(ours) - len(different),
        "different": different[:SHOWN],
    }


def checked_lines(checked: Mapping[str, Any]) -> Iterator[str]:
    """`check` as text."""
    package, valid = f"{checked['data']['package']} {checked['data']['version']}", checked["valid"]
    yield f"{checked['equal']} of {checked['episodes']} verdicts are those of the scorer of {package} ({valid} valid)"
    for name, sample, ours in checked["different"]:
        yield f"  DIFFERS {name} (sample {sample}): ours says {'valid' if ours else 'invalid'}"


def _per_task(folder: Path, benchmark: Benchmark | None) -> dict[str, dict[str, float]]:
    """The mean over the samples of each task, by measure and task."""
    if benchmark is None:
        return rollout_scores((done.task, Rollout.from_json(done.result["rollout"])) for done in episodes(folder))
    verdicts = _verdicts(folder, benchmark).items()
    return by_task(MEASURES, ((task, {name: getattr(own, name) for name in MEASURES}) for (task, _), own in verdicts))


def _verdicts(folder: Path, benchmark: Benchmark) -> dict[tuple[str, int], Judged]:
    """Our verdict on every recorded episode, by the benchmark's id and sample."""
    by_name = {task.provenance["id"]: task for task in benchmark.tasks()}
    return {episode.key: benchmark.judge(by_name[episode.task], episode) for episode in episodes(folder)}


def _write_results(folder: Path, settings: Settings, benchmark: Benchmark) -> list[tuple[int, list[Path]]]:
    """Writes the recorded episodes as the benchmark's result files, a folder a sample; returns sample and files."""
    samples: dict[int, list[Episode]] = defaultdict(list)
    for episode in episodes(folder):
        samples[episode.sample].append(episode)
    place = folder / benchmark.name
    return [
        (sample, benchmark.write(place / (f"result_{sample}" if sample else "result"), settings, played))
        for sample, played in sorted(samples.items())
    ]
