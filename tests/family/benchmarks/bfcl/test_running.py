"""`rods-eval` against a real HTTP server: scores, resumption after a kill, budgets, refusals."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.buffers.log.tail import read
from rods.evaluation.card import different
from rods.family.benchmarks import scores
from rods.family.benchmarks.folder import EPISODES, Journal, cards, episodes
from rods.family.benchmarks.main import run
from rods.worlds.bfcl.world import Bfcl
from tests.family.benchmarks.bfcl.runs import evaluate
from tests.family.benchmarks.disturbed import killed_at

PLAYER = "tests.family.benchmarks.bfcl.player:answer"
TASKS = ("--types", "miss_func", "--tasks-per-type", 9)


@pytest.fixture(scope="module")
def stub(bfcl: Bfcl) -> Iterator[Stub]:
    with Stub(Script(answer=PLAYER, model="miss_func")) as found:
        yield found


@pytest.fixture(autouse=True)
def fresh(stub: Stub) -> None:
    stub.use(Script(answer=PLAYER, model="miss_func"))
    stub.forget()


def at(stub: Stub) -> tuple[str, ...]:
    return "--url", stub.url, "--model", "miss_func"


@pytest.fixture(scope="module")
def finished(stub: Stub, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """An evaluation in prompt mode that nothing disturbed."""
    folder = tmp_path_factory.mktemp("finished") / "e"
    return folder, evaluate("run", folder, *at(stub), *TASKS)


@pytest.mark.slow
def test_scores_and_official_verdicts_agree_in_every_protocol(
    stub: Stub, finished: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, prompted = finished
    native = evaluate("run", tmp_path / "n", *at(stub), *TASKS, "--calls", "native")
    dialect = evaluate("run", tmp_path / "d", *at(stub), *TASKS, "--protocol", "tags")
    own = evaluate("run", tmp_path / "o", *at(stub), *TASKS, "--protocol", "native")
    assert prompted["complete"] and prompted["scores"] == native["scores"] == dialect["scores"]
    assert own["scores"] == native["scores"]
    scores = prompted["scores"]["held-out"]["all"]
    assert (
        0 < scores["official"]["mean"] < 1
        and scores["progress"]["mean"] > scores["official"]["mean"]
    )
    assert prompted["scores"]["test"]["miss_func"]["official"]["tasks"] < 9
    for where in (folder, tmp_path / "n", tmp_path / "d", tmp_path / "o"):
        checked = evaluate("check", where)
        assert (checked["episodes"], checked["equal"]) == (9, 9)
        assert checked["valid"] == round(9 * scores["official"]["mean"])


def test_held_out_tasks_are_the_default(finished: tuple[Path, dict[str, Any]]) -> None:
    assert set(finished[1]["scores"]) == {"held-out", "test"}


def test_a_report_names_the_data_and_the_settings(finished: tuple[Path, dict[str, Any]]) -> None:
    found = finished[1]
    assert found["data"]["version"] == "2026.3.23" and len(found["data"]["sha256"]) == 64
    assert (found["settings"]["protocol"], found["settings"]["form"]) == ("official", "prompt")
    assert evaluate("report", finished[0]) == found


def test_the_card_stands_in_the_report_in_its_json_and_before_the_episodes(
    stub: Stub,
    finished: tuple[Path, dict[str, Any]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, found = finished
    card = found["card"]
    assert [one["kind"] for one in read(folder / EPISODES)] == ["card", *["episode"] * 9]
    assert card == next(read(folder / EPISODES))["card"] and found["cards_differ"] == []
    assert card["split"]["name"] == "held-out" and card["split"]["tasks"] == 9
    assert (
        "2026.3.23" in card["data"][0]
        and card["history"] == "messages"
        and card["random_seeds"] == {"rollouts": 0}
    )
    assert run(["report", str(folder)]) == 0
    text = capsys.readouterr().out
    for part in (
        card["prompts"],
        card["split"]["hash"],
        "interval 95 % over tasks",
        "too few to tell policies apart",
    ):
        assert part in text
    native = evaluate("run", tmp_path / "n", *at(stub), *TASKS, "--calls", "native")["card"]
    assert different(card, native) == ["prompts", "history"]


def test_episodes_under_two_cards_are_told(
    finished: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder = copytree(finished[0], tmp_path / "e")
    journal = Journal(folder)
    journal.describe(cards(folder)[-1])
    assert len(cards(folder)) == 1
    journal.describe({**cards(folder)[-1], "template": "rendered anew"})
    journal.close()
    found = evaluate("report", folder)
    assert found["cards_differ"] == ["template"] and found["episodes"] == 9
    assert any(line.startswith("NOT ALIKE") and "template" in line for line in scores.lines(found))


def test_a_finished_evaluation_asks_nothing_more(
    stub: Stub, finished: tuple[Path, dict[str, Any]]
) -> None:
    assert evaluate("run", finished[0], *at(stub), *TASKS) == finished[1]
    assert stub.counts()["requests"] == 0


@pytest.mark.slow
def test_a_killed_evaluation_goes_on_without_repeating_an_episode(
    stub: Stub, finished: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    stub.use(Script(answer=PLAYER, model="miss_func"))
    folder = tmp_path / "e"
    arguments = ("run", folder, *at(stub), *TASKS, "--in-flight", 2)
    assert killed_at(3, *arguments) == -signal.SIGKILL
    with (folder / EPISODES).open("ab") as log:
        log.write(b'{"seq":99,"id":"torn')
    done = {episode.key: episode for episode in episodes_of(folder)}
    stub.forget()
    found = evaluate(*arguments)
    after = {episode.key: episode for episode in episodes(folder)}
    assert len(done) == 3 and {key: after[key] for key in done} == done
    asked = sum(
        len(turn) for key, episode in after.items() if key not in done for turn in episode.result
    )
    assert stub.counts()["requests"] == asked
    assert found["scores"] == finished[1]["scores"]


def episodes_of(folder: Path) -> list[Any]:
    """The episodes of a log whose last line is torn."""
    whole = folder.parent / "whole"
    whole.mkdir()
    content = (folder / EPISODES).read_bytes()
    (whole / EPISODES).write_bytes(content[: content.rindex(b"\n") + 1])
    return list(episodes(whole))


def test_a_spent_budget_leaves_episodes_out_and_says_so(
    stub: Stub, finished: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder = tmp_path / "e"
    found = evaluate(
        "run", folder, *at(stub), *TASKS, "--budget-requests", 40, "--in-flight", 3, code=5
    )
    assert not found["complete"] and 0 < found["episodes"] < 9
    assert found["scores"]["held-out"]["all"]["official"]["tasks"] == found["episodes"]
    whole = evaluate("run", folder, *at(stub), *TASKS)
    assert whole["complete"] and whole["scores"] == finished[1]["scores"]


def test_an_endpoint_s_failures_are_not_the_policy_s(
    stub: Stub, finished: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder = tmp_path / "e"
    stub.use(Script(answer=PLAYER, model="miss_func", faults={"400": 1.0}))
    refused = evaluate("run", folder, *at(stub), *TASKS, code=5)
    gone = evaluate(
        "run",
        folder,
        "--url",
        "http://127.0.0.1:9/v1",
        *at(stub)[2:],
        *TASKS,
        "--patience",
        1,
        code=5,
    )
    for found in (refused, gone):
        assert (found["complete"], found["episodes"], found["scores"]) == (False, 0, {})
    stub.use(Script(answer=PLAYER, model="miss_func"))
    assert evaluate("run", folder, *at(stub), *TASKS)["scores"] == finished[1]["scores"]


@pytest.mark.slow
def test_a_prompt_that_does_not_fit_fails_the_task_as_officially(
    stub: Stub, tmp_path: Path
) -> None:
    stub.use(Script(answer=PLAYER, model="miss_func", faults={"no_room": 1.0}))
    folder = tmp_path / "e"
    found = evaluate("run", folder, *at(stub), *TASKS)
    assert found["complete"] and found["ends"] == {"context": 9}
    assert found["scores"]["held-out"]["all"]["progress"]["mean"] == 0
    assert evaluate("check", folder)["equal"] == 9
    written = next((folder / "bfcl").rglob("*_result.json")).read_text().splitlines()
    assert all("Error during inference" in json.loads(line)["result"] for line in written)


def test_other_settings_are_refused_with_the_difference(
    stub: Stub, finished: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", str(finished[0]), *at(stub), *map(str, TASKS), "--calls", "native"]) == 3
    assert "form is 'prompt' there, 'native' now" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no policy"),
        (("--url", "http://127.0.0.1:9/v1", "--weights", "."), "several policies"),
        (("--url", "http://127.0.0.1:9/v1"), "no model"),
        (("--url", "nowhere", "--model", "m"), "nowhere"),
        (("--weights", "/nowhere"), "no such file or folder"),
        (
            ("--url", "http://a/v1", "--model", "m", "--protocol", "tags", "--calls", "native"),
            "--calls native",
        ),
        (("--url", "http://127.0.0.1:9/v1", "--model", "m", "--samples", "0"), "Must be > 0"),
    ],
)
def test_mistakes_are_one_line(
    bfcl: Bfcl,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    assert run(["run", str(tmp_path / "e"), *arguments]) == 2
    message = capsys.readouterr().err
    assert said in message and message.count("\n") == 1
    assert not (tmp_path / "e").exists()
