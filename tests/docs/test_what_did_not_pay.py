"""The tables of docs/what-did-not-pay.md follow from the result lines of its studies."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rods.evaluation.scoring import estimate
from tests import tables

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "what-did-not-pay.md").read_text(encoding="utf-8")
Lines = Mapping[int, dict[str, Any]]  # by random seed


def recorded(study: str) -> dict[str, dict[int, dict[str, Any]]]:
    """The result lines of a study: condition → random seed → line."""
    lines: dict[str, dict[int, dict[str, Any]]] = {}
    results = ROOT / "experiments" / study / "results.jsonl"
    for text in results.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        lines.setdefault(line["condition"], {})[line["seed"]] = line
    return lines


def gain(line: Mapping[str, Any]) -> float:
    return line["end"]["all"] - line["start"]["all"]


def cell(values: list[float]) -> str:
    mean = estimate(values)
    return f"{mean.mean:+.3f} ({mean.low:+.3f} to {mean.high:+.3f})".replace("-", "−")


def over(mine: Lines, other: Lines) -> str:
    seeds = sorted(mine.keys() & other.keys())
    return cell([gain(mine[seed]) - gain(other[seed]) for seed in seeds])


def gain_when_written(line: Mapping[str, Any], count: int) -> float:
    """The gain when `count` variants were written, straight between two points of the curve."""
    curve = line["curve"]
    at = max(index for index, point in enumerate(curve) if point["written"] <= count)
    gains = [point["scores"]["all"] - curve[0]["scores"]["all"] for point in curve]
    if at + 1 == len(curve):
        return gains[-1]
    share = (count - curve[at]["written"]) / (curve[at + 1]["written"] - curve[at]["written"])
    return gains[at] + share * (gains[at + 1] - gains[at])


def at_equal_written(mine: Lines, other: Lines) -> str:
    values = []
    for seed in sorted(mine.keys() & other.keys()):
        count = min(line["curve"][-1]["written"] for line in (mine[seed], other[seed]))
        values.append(gain_when_written(mine[seed], count) - gain_when_written(other[seed], count))
    return cell(values)


def test_the_table_of_aiming_follows_from_its_lines() -> None:
    lines = recorded("aimed")
    table = next(table for table in PAGE.split("\n\n") if "| at equal written |" in table)
    setting = ""
    seen = 0
    for row in table.splitlines()[2:]:
        cells = [part.strip() for part in row.strip("|").split("|")]
        name, gained, static, random_seeds, written = cells
        if name.startswith("*"):
            setting = name.strip("*")
            continue
        mine = lines[f"{setting}: {name}"]
        assert gained == cell([gain(line) for line in mine.values()])
        if static:
            assert static == over(mine, lines[f"{setting}: static data"])
        if random_seeds:
            assert random_seeds == over(mine, lines[f"{setting}: random seeds"])
        if written:
            assert written == at_equal_written(mine, lines[f"{setting}: random seeds"])
        seen += 1
    assert seen == len(lines)


def anchors(study: str, names: set[str]) -> dict[str, str]:
    """What each condition of a study is compared with."""
    if study == "teaching":
        against = dict.fromkeys(names, "static data")
        of_seal = [name for name in names if name.startswith("SEAL")]
        against |= dict.fromkeys(of_seal, "static data, binary")
        against |= {
            "faded hints and RODS": "RODS",
            "faded hints, KL 0.1": "static data, KL 0.1",
            "Environment Tuning, KL 0.1": "static data, KL 0.1",
            "SEAL full, KL 0.1": "static data, binary, KL 0.1",
        }
        return against
    against = dict.fromkeys(names, "static data")
    without = [name for name in names if "without stage" in name]
    return against | dict.fromkeys(without, "Environment Tuning")


@pytest.mark.parametrize("study", ["teaching", "feedback"])
def test_the_tables_of_hints_follow_from_their_lines(study: str) -> None:
    lines = recorded(study)
    against = anchors(study, set(lines))
    printed = ["| condition | gained | over its anchor |", "|---|---|---|"]
    for name, mine in lines.items():
        compared = "" if against[name] == name else over(mine, lines[against[name]])
        if name == "rules told":
            static = lines["static data"]
            ends = {seed: (mine[seed]["end"]["all"], static[seed]["end"]["all"]) for seed in mine}
            compared = cell([end - without for end, without in ends.values()])
        printed.append(f"| {name} | {cell([gain(line) for line in mine.values()])} | {compared} |")
    section = next(part for part in PAGE.split("\n## ") if HEADS[study] in part.splitlines()[0])
    assert tables.rows(section, "gained", "over its anchor").keys() == lines.keys()
    assert not tables.differences(section, "\n".join(printed), "gained", "over its anchor")


def test_the_table_of_generated_worlds_follows_from_its_lines() -> None:
    lines = recorded("worlds")
    printed = ["| condition | gained | RODS over it |", "|---|---|---|"]
    for name, mine in lines.items():
        compared = "" if name == "RODS" else over(lines["RODS"], mine)
        printed.append(f"| {name} | {cell([gain(line) for line in mine.values()])} | {compared} |")
    section = next(part for part in PAGE.split("\n## ") if part.startswith("Variants in generated"))
    assert not tables.differences(section, "\n".join(printed), "gained", "RODS over it")


HEADS = {"teaching": "where there is something to learn", "feedback": "on plain desk"}


def test_a_figure_that_differs_from_its_line_is_told() -> None:
    program = "| condition | gained |\n|---|---|\n| RODS | +0.100 |"
    page = "| condition | gained | seeds |\n|---|---|---|\n| RODS | +0.100 | 3 |"
    assert not tables.differences(page, program, "gained")
    assert tables.differences(page.replace("+0.100", "+0.200"), program, "gained")
    with pytest.raises(ValueError, match="no table"):
        tables.differences(page.replace("gained", "lost"), program, "gained")


def test_every_study_that_the_page_names_has_its_lines() -> None:
    for folder in ("aimed", "teaching", "feedback", "worlds"):
        assert f"experiments/{folder}/results.jsonl" in PAGE and recorded(folder)
