"""The scores of an evaluation by the benchmark's measures, with 95 % intervals over tasks; and
their check against the benchmark's own scorer. Verdicts are computed from the recorded outputs each
time."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from rods.canonical import JsonMapping, JsonObject, only
from rods.console.output import estimated
from rods.errors import UserError
from rods.evaluation import card
from rods.evaluation.scoring import by_task, differences, paired, share, too_few
from rods.family.benchmarks.benchmarks import opened, packaged
from rods.family.benchmarks.contract import Benchmark, Packaged
from rods.family.benchmarks.folder import (
    PARTS,
    Episode,
    Score,
    Settings,
    cards,
    complete,
    described,
    episodes,
    lost,
)

SHOWN = 20  # differences from the official scorer that are listed


def report(folder: Path) -> JsonObject:
    """The scores of the evaluation in `folder` from its recorded episodes, whose result files it
    writes. Raises UserError, RefusedError."""
    content, settings, benchmark = opened(folder)
    about = {"settings": content, "about": benchmark.about()}
    about |= only(content, ("data", "environment"))
    if isinstance(benchmark, Packaged):
        _write_results(folder, settings, benchmark)
        about["results"] = str(folder / benchmark.name)
    done = list(episodes(folder))
    gone = lost(folder)
    descriptions = cards(folder)
    scored = _scored(folder, benchmark)
    means = _per_task(benchmark, scored)
    expected = benchmark.expected(settings) * settings.samples
    kinds = {task: score.kind for (task, _), score in scored.items()}
    about["scores"] = {
        part: _table(means, only(kinds, tasks), settings.types)
        for part in benchmark.parts
        if (tasks := {task for (task, _), score in scored.items() if score.split in PARTS[part]})
    }
    return {
        "folder": str(folder),
        **about,
        "episodes": len(done),
        "expected": expected,
        "lost": dict(gone),
        "complete": complete(len(done), gone.total(), expected),
        "ends": dict(Counter(episode.end for episode in done)),
        "cut_outputs": sum(episode.cut for episode in done),
        "card": described(folder),
        "cards_differ": sorted(
            {name for pair in pairwise(descriptions) for name in card.different(*pair)}
        ),
    }


def _table(
    means: Mapping[str, Mapping[str, float]], kinds: Mapping[str, str], order: Sequence[str]
) -> JsonObject:
    """The measures of the tasks in `kinds` (by name), by kind in this order and over all: of each
    those that any of its tasks has."""
    return {
        kind: {
            measure: share(values).as_json()
            for measure, scores in means.items()
            if (
                values := [
                    scores[name]
                    for name, own in kinds.items()
                    if name in scores and kind in (own, "all")
                ]
            )
        }
        for kind in [*(kind for kind in order if kind in kinds.values()), "all"]
    }


def lines(summary: JsonMapping) -> Iterator[str]:
    """The report as text."""
    settings = summary["settings"]
    ends = summary["ends"]
    *_, benchmark = opened(Path(summary["folder"]))
    verdict = benchmark.measures[0]
    native = "native" in (settings["form"], settings["protocol"])
    calls = "native tool calls" if native else "prompt mode"
    yield f"{settings['policy'].get('name', '?')}: {summary['about']}"
    played = f"{settings['samples']} sample(s) a task, temperature {settings['temperature']:g}"
    yield f"protocol {settings['protocol']}, {calls}, documents {settings['documents']}, {played}"
    if not settings["policy"].get("states_data", True):
        yield (
            "the recorded outputs do not say which data they belong to; only questions in their "
            "logs were compared"
        )
    for part, scores in summary["scores"].items():
        measures = list(scores["all"])
        width = max(30, *map(len, scores))
        heading = f"\n{benchmark.parts[part]:{width + 2}}{'tasks':>7}"
        yield "  ".join([heading, *(f"{name:^22}" for name in measures)])
        for kind, row in scores.items():
            cells = "  ".join(cell(row[name]) if name in row else " " * 22 for name in measures)
            yield f"  {kind:{width}}{row[verdict]['tasks']:>7}  {cells}"
    counts = ", ".join(f"{name} {count}" for name, count in sorted(ends.items()))
    yield f"\n{summary['episodes']} of {summary['expected']} episodes ({counts or 'none'})"
    most = settings["max_tokens"]
    if summary["cut_outputs"]:
        yield f"{summary['cut_outputs']} outputs were cut at {most} tokens and taken as they were"
    if "context" in ends:
        yield (
            f"{ends['context']} episodes failed because prompt and {most} tokens did not fit the "
            f"context"
        )
    if "length" in ends:
        yield f"{ends['length']} episodes failed because an output was cut at {most} tokens"
    over = max(
        (scores["all"][verdict]["tasks"] for scores in summary["scores"].values()), default=0
    )
    yield from card.lines(summary["card"], over)
    if summary["cards_differ"]:
        yield f"NOT ALIKE: episodes of this folder differ in {', '.join(summary['cards_differ'])}"
    if not summary["complete"]:
        yield "INCOMPLETE: these are the scores of the tasks that are there"


def cell(estimate: JsonMapping, sign: str = "") -> str:
    """A share in percent, with its interval; `sign` is "+" for differences."""
    mean = f"{100 * estimate['mean']:>{sign}6.1f}"
    interval = estimate["interval"]
    if interval is None:
        return mean + " " * 15
    return f"{mean} [{100 * interval[0]:{sign}5.1f}, {100 * interval[1]:{sign}5.1f}]"


def compare(before: Path, after: Path) -> JsonObject:
    """Two evaluations of the same tasks, after − before in pairs by task: {"differences": by
    measure, "kinds": the verdict by kind of task, before, after and difference, "left_out",
    "cards_differ", "lost": what each lacks, as text}. Raises UserError where no task was played in
    both, RefusedError for other data."""
    benchmarks = [(folder, opened(folder)[-1]) for folder in (before, after)]
    scored = [_scored(folder, benchmark) for folder, benchmark in benchmarks]
    old, new = (
        _per_task(benchmark, played)
        for (_, benchmark), played in zip(benchmarks, scored, strict=True)
    )
    pairs = differences(old, new)
    if not pairs:
        raise UserError(
            "no task was played in both",
            where=f"{before}, {after}",
            remedy="evaluate the same tasks",
        )
    both = [described(folder) for folder in (before, after)]
    benchmark = benchmarks[0][-1]
    kinds = {task: score.kind for (task, _), score in scored[0].items()}
    verdict = benchmark.measures[0]
    return {
        "before": str(before),
        "after": str(after),
        "differences": pairs,
        "kinds": _pairs_by_kind(old[verdict], new[verdict], kinds, benchmark.kinds),
        "left_out": len(next(iter(old.values())).keys() ^ next(iter(new.values())).keys()),
        "cards_differ": card.different(*both),
        "lost": [(card or {}).get("lost", "none") for card in both],
    }


def _pairs_by_kind(
    old: Mapping[str, float],
    new: Mapping[str, float],
    kinds: Mapping[str, str],
    order: Sequence[str],
) -> JsonObject:
    """Both means and the paired difference, over the tasks that both score, of each kind and of
    all."""
    rows = {}
    for kind in [*order, "all"]:
        if both := [task for task in old if task in new and kind in (kinds[task], "all")]:
            before = only(old, both)
            after = only(new, both)
            means = {
                "before": share([*before.values()]).as_json(),
                "after": share([*after.values()]).as_json(),
            }
            rows[kind] = {**means, "difference": paired(before, after).as_json()}
    return rows


def compared_lines(compared: JsonMapping) -> Iterator[str]:
    """`compare` as text."""
    yield f"{compared['after']} less {compared['before']}, in pairs by task"
    for measure, difference in compared["differences"].items():
        few = f" ({few})" if (few := too_few(difference["tasks"])) else ""
        yield f"  {measure:10}{estimated(difference, '+')}, {difference['tasks']} tasks{few}"
    if compared["left_out"]:
        yield f"{compared['left_out']} tasks were played in one of them alone, and are left out"
    if compared["cards_differ"]:
        yield (
            f"NOT ALIKE: the two differ in {', '.join(compared['cards_differ'])}, not in the "
            f"policy alone"
        )
    yield from lost_lines(compared)


def lost_lines(compared: JsonMapping) -> Iterator[str]:
    """What two evaluations of `compare` lack, where that differs."""
    if "lost" in compared["cards_differ"]:
        before, after = compared["lost"]
        yield f"left out: {before} before, {after} after; the difference may be theirs"


def check(folder: Path) -> JsonObject:
    """Both verdicts on every recorded episode: {"episodes", "valid", "equal", "different": [[id,
    sample, ours], …]}. Raises UserError for a folder that is no evaluation on a benchmark."""
    content, settings, benchmark = opened(folder)
    scorer = packaged(benchmark, folder)
    verdict = benchmark.measures[0]
    ours = {key: score.measures[verdict] == 1 for key, score in _scored(folder, benchmark).items()}
    theirs = scorer.scored(_write_results(folder, settings, scorer), settings.results_form)
    unjudged = [key for key, verdict in theirs.items() if verdict is None and key in ours]
    different = [
        [*key, ours[key]]
        for key in sorted(ours)
        if key not in unjudged and ours[key] != theirs.get(key)
    ]
    return {
        "data": content["data"],
        "episodes": len(ours),
        "valid": sum(map(bool, theirs.values())),
        "equal": len(ours) - len(unjudged) - len(different),
        "unjudged": len(unjudged),
        "different": different[:SHOWN],
    }


def checked_lines(checked: JsonMapping) -> Iterator[str]:
    """`check` as text."""
    package = f"{checked['data']['package']} {checked['data']['version']}"
    valid = checked["valid"]
    yield (
        f"{checked['equal']} of {checked['episodes']} verdicts are those of the scorer of "
        f"{package} ({valid} valid)"
    )
    if checked["unjudged"]:
        yield (
            f"{checked['unjudged']} were not judged: the scorer lacks a parser that is not "
            f"installed"
        )
    for name, sample, ours in checked["different"]:
        yield f"  DIFFERS {name} (sample {sample}): ours says {'valid' if ours else 'invalid'}"


def _per_task(
    benchmark: Benchmark, scored: Mapping[tuple[str, int], Score]
) -> dict[str, dict[str, float]]:
    """The mean over the samples of each task, by measure and task."""
    return by_task(
        benchmark.measures, ((task, score.measures) for (task, _), score in scored.items())
    )


def _scored(folder: Path, benchmark: Benchmark) -> dict[tuple[str, int], Score]:
    """The score of every recorded episode that has one, by task and sample."""
    scored = {episode.key: benchmark.score(episode) for episode in episodes(folder)}
    return {key: score for key, score in scored.items() if score.measures}


def _write_results(
    folder: Path, settings: Settings, benchmark: Packaged
) -> list[tuple[int, list[Path]]]:
    """Writes the recorded episodes as the benchmark's result files, a folder a sample; returns
    sample and files."""
    samples: dict[int, list[Episode]] = defaultdict(list)
    for episode in episodes(folder):
        samples[episode.sample].append(episode)
    place = folder / benchmark.name
    return [
        (
            sample,
            benchmark.write(place / (f"result_{sample}" if sample else "result"), settings, played),
        )
        for sample, played in sorted(samples.items())
    ]
