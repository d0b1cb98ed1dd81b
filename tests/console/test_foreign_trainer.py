"""Another program plays the trainer through `rods trainer observe` and `merge`; the daemon does not
notice."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rods.buffers.run.run import Run
from rods.buffers.trainer_log import TrainerLog
from rods.console.foreign_trainer import observe, record_steps
from rods.errors import UserError
from rods.observations import Update
from tests.console.conftest import CONFIG, rods
from tests.console.dash.test_views import ask
from tests.trainer.runs import train

SCRIPT = Path(__file__).parent / "shell_trainer.sh"
TOOLRL: dict[str, Any] = {"kind": "toolrl", "range": [-3.0, 4.0]}
BINARY: dict[str, Any] = {"kind": "binary", "range": [0.0, 1.0]}
VALUE: dict[str, Any] = {"kind": "value", "range": [-1, 1]}
Slot = tuple[str, int]  # a task's id and its number of turns


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A fresh run that waits for no daemon."""
    return made(tmp_path, CONFIG.replace('sync = "lockstep"', ""))


@pytest.fixture(scope="module")
def made_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Slot]:
    """A run with an open epoch and one of its tasks."""
    path = made(tmp_path_factory.mktemp("observed"), CONFIG.replace('sync = "lockstep"', ""))
    return path, tasks(path, 0)[0]


def made(tmp_path: Path, text: str) -> Path:
    config = tmp_path / "run.toml"
    config.write_text(text)
    assert rods("trainer", "new", tmp_path / "run", "--config", config).returncode == 0
    return tmp_path / "run"


def tasks(run: Path, epoch: int) -> list[Slot]:
    done = rods("trainer", "merge", run, "--epoch", str(epoch))
    assert done.returncode == 0, done.stderr
    found = [json.loads(line)["task"] for line in done.stdout.splitlines()]
    return [(task["id"], len(task["user"]["script"])) for task in found]


def group(slot: Slot, *resolved: Any, **more: Any) -> dict[str, Any]:
    task, turns = slot
    return {
        "task": task,
        "rollouts": [{"resolved": one, "expected": turns, **more} for one in resolved],
    }


def valued(slot: Slot, *rewards: Any, **more: Any) -> dict[str, Any]:
    return {
        "task": slot[0],
        "reward": VALUE,
        "rollouts": [{"reward": one, **more} for one in rewards],
    }


def step(number: int, slots: list[Slot], resolved: int = 1) -> str:
    return "".join(json.dumps(group(slot, resolved, 0)) + "\n" for slot in slots) + end(number)


def end(number: int, **more: int) -> str:
    return json.dumps({"end_step": number, **more}) + "\n"


def answers(done: "subprocess.CompletedProcess[str]") -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_a_shell_script_is_a_trainer(tmp_path: Path) -> None:
    run = made(tmp_path, CONFIG)
    daemon = subprocess.Popen(
        [sys.executable, "-m", "rods.daemon", str(run)], stderr=subprocess.DEVNULL
    )
    try:
        done = subprocess.run(
            ["sh", str(SCRIPT), str(run), "4"],
            env={**os.environ, "PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
        assert "step 4 of epoch 3 recorded (attempt 4)" in done.stdout
        status = json.loads(rods("status", run, "--json").stdout)
        deadline = time.monotonic() + 30
        while status["considered"] < 4 and time.monotonic() < deadline:
            time.sleep(0.1)
            status = json.loads(rods("status", run, "--json").stdout)
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(120)
    assert status["step"] == 4
    assert status["picked"] > 0
    assert status["injected"] > 0
    assert rods("verify", run).returncode == 0
    tracker = json.loads((run / "tracker.json").read_text())
    assert tracker["step"] == 4


def test_a_committed_epoch_is_printed_again_as_it_was(run: Path) -> None:
    first = json.loads(rods("trainer", "merge", run, "--epoch", "0", "--json").stdout)
    again = json.loads(rods("trainer", "merge", run, "--epoch", "0", "--json").stdout)
    assert not first.pop("recorded")
    assert again.pop("recorded")
    assert first == again
    assert len(first["slots"]) == 16
    assert first["reward"] == "progress"
    assert rods("trainer", "merge", run, "--epoch", "2").returncode == 3
    assert rods("trainer", "merge", run, "--epoch", "1", "--stage", "2").returncode == 2


def test_an_identical_step_is_done_a_different_one_refused(run: Path) -> None:
    ids = tasks(run, 0)[:3]
    both = answers(rods("trainer", "observe", run, "--json", stdin=step(1, ids) + step(1, ids)))
    assert [(one["step"], one["recorded"]) for one in both] == [(1, True), (1, False)]
    tasks(run, 1)
    # of epoch 0, though 1 is open
    late = answers(rods("trainer", "observe", run, "--json", stdin=step(1, ids)))
    assert (late[0]["epoch"], late[0]["recorded"]) == (0, False)
    other = rods("trainer", "observe", run, stdin=step(1, ids, resolved=2))
    assert other.returncode == 3
    assert "recorded with other contents" in other.stderr


def test_a_rubric_s_reward_follows_from_what_it_gave(run: Path) -> None:
    task, turns = tasks(run, 0)[0]
    judged = {**group((task, turns), 0, turns), "reward": {"kind": "rubric", "range": [-1, 1]}}
    answers(rods("trainer", "observe", run, "--json", stdin=json.dumps(judged) + "\n" + end(1)))
    records = [json.loads(line) for line in (run / "observations.jsonl").read_text().splitlines()]
    (found,) = [record for record in records if record["kind"] == "group"]
    assert [one["reward"] for one in found["rollouts"]] == [-1.0, 1.0]


def test_a_reward_of_ones_own_steers_the_run(run: Path) -> None:
    easy, middling, hard, broken = tasks(run, 0)[:4]
    said = [valued(easy, 1, 0.9), valued(middling, 0.37, -0.13), valued(hard, -1, -0.999)]
    lost = valued(broken, 0.5, 0.7)
    lost["rollouts"].append({"end": "infrastructure"})
    lines = "".join(json.dumps(one) + "\n" for one in [*said, lost]) + end(1)
    both = answers(rods("trainer", "observe", run, "--json", stdin=lines * 2))
    assert [one["recorded"] for one in both] == [True, False]
    tracked = json.loads((run / "tracker.json").read_text())["tasks"]
    windows = {slot: tracked[slot[0]]["windows"][0] for slot in (easy, middling, hard, broken)}
    found = [
        (windows[slot]["mean"], windows[slot]["zone"]) for slot in (easy, middling, hard, broken)
    ]
    assert found == [
        (0.975, "mastered"),
        (0.56, "boundary"),
        (0.00025, "too_hard"),
        (0.8, "boundary"),
    ]
    assert windows[middling]["variance"] == 0.015625  # half the distance of 0.25, squared
    assert rods("verify", run).returncode == 0


def test_from_step_takes_later_steps_back(run: Path) -> None:
    ids = tasks(run, 0)[:3]
    answers(rods("trainer", "observe", run, "--json", stdin=step(1, ids) + step(2, ids)))
    redone = answers(
        rods(
            "trainer", "observe", run, "--json", "--from-step", "1", stdin=step(2, ids, resolved=2)
        )
    )
    assert (redone[0]["step"], redone[0]["attempt"], redone[0]["recorded"]) == (2, 2, True)
    assert rods("trainer", "observe", run, "--from-step", "7").returncode == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense\n", ["line 1", "not JSON"]),
        ("[]\n", ["line 1", "a record is a list, not an object"]),
        (
            '{"task":"unknown","rollouts":[{"resolved":1,"expected":2}]}\n{"end_step":1}\n',
            ["line 1", "not in this run"],
        ),
        ('{"end_step":0}\n', ["line 1", "whole numbers from 1"]),
        ('{"end_step":1,"epoch":5}\n', ["epoch 5 is not open"]),
        ('{"end_step":1,"epoch":false}\n', ["epoch False is not open"]),
        ('{"end_step":1,"policy_step":"0"}\n', ["line 1", "policy_step is '0'"]),
        ('{"end_step":1}\n', ["no groups"]),
    ],
)
def test_a_bad_line_is_named(run: Path, text: str, words: list[str]) -> None:
    tasks(run, 0)
    done = rods("trainer", "observe", run, stdin=text)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


@pytest.mark.few(8, others="slow")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda slot: group(slot, 1, binary=7), "binary is 7; it must be 0 or 1"),
        (lambda slot: group(slot, 1.5), "resolved is 1.5; it must be a whole number of turns"),
        (lambda slot: group(slot, True), "resolved is True"),
        (lambda slot: group(slot, None), "resolved is None"),
        (lambda slot: group(slot, -1), "is impossible"),
        (lambda slot: group((slot[0], 0), 0), "resolved 0 of 0 turns is impossible"),
        (lambda slot: group((slot[0], 50), 1), "50 turns are expected, but the task"),
        (lambda slot: group(slot, 1, reward="1"), "reward is '1'; it must be a number"),
        (lambda slot: group(slot, 1, format=True), "format is True; it must be a number"),
        (lambda slot: group(slot, 1, advantage="1"), "advantage is '1'; it must be a number"),
        (lambda slot: group(slot, 1, advantage=1e200), "must lie between -1e+06 and 1e+06"),
        (lambda slot: group(slot, 1, end=["finished"]), "unknown end reason ['finished']"),
        (lambda slot: {**group(slot, 1), "stage": 1.9}, "stage is 1.9; it must be a whole number"),
        (lambda slot: {**group(slot, 1), "role": "spectator"}, "unknown role 'spectator'"),
        (lambda slot: {**group(slot, 1), "task": [slot[0]]}, "is not in this run"),
        (lambda slot: {**group(slot, 1), "task": {}}, "is not in this run"),
        (lambda slot: {"task": slot[0], "rollouts": 5}, "needs 'rollouts', a list"),
        (lambda slot: {"task": slot[0], "rollouts": [5]}, "a rollout is 5; it must be an object"),
        (lambda slot: {"task": slot[0], "rollouts": []}, "at least one rollout"),
        (
            lambda slot: group(slot, 1, labels=["sloth"]),
            "unknown label 'sloth'; there are invalid_tool_call",
        ),
        (lambda slot: group(slot, 1, labels=["pass"] * 9), "it must be a list of at most"),
        (lambda slot: group(slot, 1, calling=99), "calling is 99; it must be a whole number, 0 to"),
        (lambda slot: group(slot, 1, calling=True), "calling is True; it must be a whole number"),
        (
            lambda slot: group(slot, 1, replies=-1),
            "replies is -1; it must be a whole number, 0 or more",
        ),
        (lambda slot: group(slot, 1, replies=1.5), "replies is 1.5; it must be"),
        (
            lambda slot: {**group(slot, 1), "reward": TOOLRL},
            "no 'reward', and toolrl does not follow from its turns",
        ),
        (
            lambda slot: {**group(slot, 1, reward=1.0), "reward": TOOLRL | {"kind": "praise"}},
            "unknown reward kind",
        ),
        (lambda slot: {**group(slot, 1), "reward": "progress"}, "a group lacks or misshapes"),
        (
            lambda slot: group(slot, 0, reward=0.37),
            "turns is 0, not the reward 0.37: one of your own is of kind value",
        ),
        (lambda slot: {**group(slot, 0, reward=1.0), "reward": BINARY}, "the binary of 0 of"),
        (lambda slot: valued(slot, 1.5), "a reward of 1.5 lies outside its range [-1.0, 1.0]"),
        (lambda slot: valued(slot, True), "reward is True; it must be a number"),
        (lambda slot: valued(slot, None), "a rollout of kind value says no reward"),
        (
            lambda slot: valued(slot, 0.5, resolved=1),
            "is 750000 millionths of its range: leave both out",
        ),
        (
            lambda slot: {**valued(slot, 0.5), "reward": {"kind": "value"}},
            "a group lacks or misshapes 'range'",
        ),
        (lambda slot: {**valued(slot, 0.5), "reward": VALUE | {"range": [1, -1]}}, "[1.0, -1.0]"),
        (
            lambda slot: {**valued(slot, 0.5), "rollouts": [0.5]},
            "a rollout is 0.5; it must be an object",
        ),
    ],
)
def test_what_no_episode_earns_is_refused_and_not_recorded(
    made_run: tuple[Path, Slot], change: Callable[[Slot], dict[str, Any]], words: str
) -> None:
    path, slot = made_run
    with TrainerLog(Run.open(path), "observe") as log:
        log.start()
        with pytest.raises(UserError) as error:
            list(
                record_steps(
                    log, [json.dumps(change(slot)).encode(), end(1).encode()], "standard input"
                )
            )
        assert log.state.last_step == 0
    assert words in str(error.value) and "line 1" in str(error.value) and "→" in str(error.value)


def updates_of(run: Path) -> dict[int, Update]:
    """What the updates of the live steps have shown, as the page reads them."""
    table = ask(run, "steps")["updates"]
    rows = zip(table["step"], table["entropy"], table["norm"], strict=True)
    known = (
        (step, *(None if value is None or value != value else value for value in values))
        for step, *values in rows
    )
    return {step: Update(*values) for step, *values in known}


def test_a_foreign_trainer_says_how_turns_went_and_what_an_update_has_shown(run: Path) -> None:
    ids = tasks(run, 0)[:3]
    went = {"calling": 1, "replies": 4}
    lines = [group(slot, 1, 0, **went) for slot in ids]
    text = [
        *lines,
        {"end_step": 1},
        {"update": 1, "entropy": 0.5, "gradient_norm": 2},
        *lines,
        {"end_step": 2},
    ]
    later = [{"update": 2, "entropy": 0.25}, {"update": 2, "entropy": 0.7}]  # said once
    stdin = "".join(json.dumps(one) + "\n" for one in (*text, *later))
    assert [
        one["step"] for one in answers(rods("trainer", "observe", run, "--json", stdin=stdin))
    ] == [1, 2]
    status = json.loads(rods("status", run, "--json").stdout)
    turns = sum(2 * count for _, count in ids)
    assert (status["calling"], status["replies"]) == (6 / turns, 24 / turns) and status[
        "entropy"
    ] == 0.375
    assert status["gradient_norm"] == 2.0  # of the one update that says it
    assert rods("verify", run).returncode == 0
    updates = updates_of(run)
    assert updates == {1: Update(0.5, 2.0), 2: Update(0.25)}
    answers(
        rods(
            "trainer",
            "observe",
            run,
            "--json",
            "--from-step",
            "1",
            stdin="".join(json.dumps(one) + "\n" for one in text[4:5]),
        )
    )
    assert updates_of(run) == {1: Update(0.5, 2.0)}, (
        "that of a step that was taken back does not count"
    )


@pytest.mark.few(3, others="slow")
@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"update": 0, "entropy": 0.5}, "update of step 0; the last step is 0"),
        ({"update": 1, "entropy": 0.5}, "update of step 1; the last step is 0"),
        ({"update": 2, "entropy": 0.5}, "update of step 2; the last step is 1"),
        ({"update": True, "entropy": 0.5}, "update of step True"),
        ({"update": 1, "entropy": "low"}, "entropy is 'low'; it must be a number"),
        ({"update": 1, "entropy": -0.1}, "entropy is -0.1; it must be a finite number, at least 0"),
        ({"update": 1, "gradient_norm": float("inf")}, "gradient_norm is inf"),
        (5, "a record is a int, not an object: 5"),
        (["task"], "a record is a list"),
        ("[]", "a record is a list, not an object"),
        ("nonsense", "not JSON"),
    ],
)
def test_records_that_say_nothing_of_a_run_are_refused(
    tmp_path: Path, record: Any, words: str
) -> None:
    """From Python, where a record may be anything; a line of JSON may be text or bytes."""
    run = made(tmp_path, CONFIG.replace('sync = "lockstep"', ""))
    slot = tasks(run, 0)[0]
    done: list[bytes | str] = (
        [json.dumps(group(slot, 1)), json.dumps({"end_step": 1}).encode()]
        if "is 0" not in words
        else []
    )
    with pytest.raises(UserError) as error:
        list(observe(run, [*done, record]))
    assert (
        words in str(error.value)
        and f"line {len(done) + 1}" in str(error.value)
        and "→" in str(error.value)
    )


EVOLVING = """
[curriculum]
evolve_steps = 2
[[curriculum.stages]]
interface = "seal-full"
"""


@pytest.mark.slow
@pytest.mark.needs("seal")
def test_where_the_interface_follows_the_policy_groups_name_what_was_due(tmp_path: Path) -> None:
    run = made(tmp_path, CONFIG.replace('sync = "lockstep"', "") + EVOLVING)
    opened = json.loads(rods("trainer", "merge", run, "--epoch", "0", "--json").stdout)
    due = opened["interface"]
    task = opened["slots"][0]["task"]
    assert due["interface"] == f"{due['lineage']}:none"
    slot = task["id"], len(task["user"]["script"])
    failed = group(slot, 0, labels=["spurious_tool_call"] * slot[1])
    for wrong in ({}, {"interface": due["interface"]}, {**due, "interface": "identity"}):
        done = rods(
            "trainer", "observe", run, stdin=json.dumps({**failed, **wrong}) + "\n" + end(1)
        )
        assert done.returncode == 2 and f"show '{due['interface']}' and name it" in done.stderr
        assert "follows the policy, and this group says" in done.stderr
    first = json.dumps({**failed, **due}) + "\n" + end(1)
    (answer,) = answers(rods("trainer", "observe", run, "--json", stdin=first))
    following = answer["interface"]
    assert following == {"interface": f"{due['lineage']}:cautious_call", "lineage": due["lineage"]}
    assert (
        rods(
            "trainer", "observe", run, stdin=json.dumps({**failed, **due}) + "\n" + end(2)
        ).returncode
        == 2
    )
    second = json.dumps({**failed, **following}) + "\n" + end(2)
    # what was told before, once more
    both = answers(rods("trainer", "observe", run, "--json", stdin=first + second))
    assert [one["recorded"] for one in both] == [False, True]
    assert (
        json.loads(rods("trainer", "merge", run, "--epoch", "1", "--json").stdout)["interface"]
        == both[-1]["interface"]
    )
    assert rods("verify", run).returncode == 0
    (window,) = json.loads((run / "tracker.json").read_text())["tasks"][task["id"]]["windows"]
    assert window["groups"] == 2, "versions of one lineage share a window"


def test_groups_that_no_end_step_closes_are_not_recorded(run: Path) -> None:
    ids = tasks(run, 0)[:2]
    done = rods("trainer", "observe", run, stdin=step(1, ids).replace(end(1), ""))
    assert done.returncode == 2
    assert "2 groups were not closed" in done.stderr
    impossible = step(1, ids).replace('"resolved": 1', '"resolved": 9')
    assert "impossible" in rods("trainer", "observe", run, stdin=impossible).stderr


def test_no_step_before_the_first_merge(run: Path) -> None:
    done = rods("trainer", "observe", run, stdin=step(1, [("x", 2)]))
    assert done.returncode == 2
    assert "rods trainer merge RUN --epoch 0" in done.stderr


@pytest.mark.slow
def test_a_policy_that_another_program_trains_is_called_that(tmp_path: Path) -> None:
    external = re.sub(r'kind = "simulated"', 'kind = "external"\nmodel = "lab/policy-7b"', CONFIG)
    assert external != CONFIG
    path = made(tmp_path, external.replace('sync = "lockstep"', ""))
    config = Run.open(path).config
    assert (config.policy.kind, config.policy.model) == ("external", "lab/policy-7b"), (
        "a name, and no folder"
    )
    slot = tasks(path, 0)[0]
    list(
        observe(
            path, [group(slot, *[slot[1]] * config.rollouts.rollouts_per_task), {"end_step": 1}]
        )
    )
    (listed,) = json.loads(rods("status", path.parent, "--json").stdout)["runs"]
    assert (listed["policy"], listed["model"], listed["step"]) == ("external", "lab/policy-7b", 1)
    assert (
        rods("status", path.parent)
        .stdout.splitlines()[1]
        .endswith("  external policy lab/policy-7b")
    )
    report = rods("dash", path, "--export", path / "report")
    assert report.returncode == 0 and "simulated" not in report.stdout.lower()
    assert "policy external lab/policy-7b" in (path / "report" / "index.html").read_text()
    refused = {
        "another program trains the policy of this run → start it, and `rods-daemon RUN` beside "
        "it": train(path),
        "the policy's weights are with the program that trains it → `rods trainer score": rods(
            "trainer", "score", path
        ),
    }
    for said, done in refused.items():
        assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
