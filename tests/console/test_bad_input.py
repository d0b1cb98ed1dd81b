"""What a person may get wrong: exit code, place, reason and remedy, on one line, without a
traceback."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rods.errors import MOST_SAID
from rods.tasks import write_task_file
from tests.console.conftest import CONFIG, rods
from tests.environments import desk_tasks


def refused(*arguments: str | Path, code: int = 2, stdin: str = "", cwd: Path | None = None) -> str:
    """Runs a verb that must fail; returns its one line."""
    done = rods(*arguments, stdin=stdin, cwd=cwd)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def config(folder: Path, old: str = "", new: str = "") -> Path:
    path = folder / "run.toml"
    assert old in CONFIG
    path.write_text(CONFIG.replace(old, new, 1) if old else CONFIG)
    return path


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("steps = 14", "stepps = 14", ["training.stepps", "unknown key", "docs/configuration.md"]),
        ("steps = 14", 'steps = "many"', ["training.steps", "integer"]),
        ("steps = 14", "steps = 99999999999999999999", ["training.steps", "64 bits"]),
        ("rollouts_per_task = 4", "rollouts_per_task = 1", ["rollouts_per_task", "at least 2"]),
        ("steps = 14", "steps = inf", ["training.steps", "must be finite, not inf"]),
        (
            "steps = 14",
            "steps = 14\nlearning_rate = nan",
            ["training.learning_rate", "must be finite, not nan"],
        ),
        ("steps = 14", 'steps = 14\n"\\u001b[2J" = 1', ["unknown key"]),
        pytest.param(
            "steps = 14", f"steps = 14\n{'x' * (1 << 20)} = 1", ["unknown key"], id="a long key"
        ),
        ("batch_tasks = 8", "batch_tasks = 64", ["batch_tasks", "16 training tasks", "lower it"]),
        ('tasks = "desk"', 'tasks = "missing.jsonl"', ["missing.jsonl", "No such file"]),
        ("[data]", "[data", ["run.toml", "not TOML"]),
    ],
)
def test_a_bad_configuration(tmp_path: Path, old: str, new: str, words: list[str]) -> None:
    line = refused("trainer", "new", tmp_path / "run", "--config", config(tmp_path, old, new))
    for word in [*words, "→"]:
        assert word in line
    assert "\x1b" not in line and len(line) < 2 * MOST_SAID, (
        "a key must neither steer nor fill the terminal"
    )
    assert not (tmp_path / "run").exists()


def test_a_missing_configuration_file(tmp_path: Path) -> None:
    assert "nothing.toml" in refused("up", tmp_path / "run", "--config", tmp_path / "nothing.toml")
    assert "add --config FILE" in refused("up", tmp_path / "run")


def test_a_run_folder_with_another_identity(finished_run: Path, tmp_path: Path) -> None:
    line = refused(
        "up", finished_run, "--config", config(tmp_path, "steps = 14", "steps = 15"), code=3
    )
    assert "training.steps: 14 → 15" in line
    assert "rods trainer extend" in line


def tasks_of(run: Path) -> list[str]:
    return (run / "tasks.jsonl").read_text().splitlines()


def with_null(line: str, *path: str) -> str:
    """The task of `line` with null at `path`."""
    record = part = json.loads(line)
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = None
    return json.dumps(record)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda lines: [*lines[:3], lines[3][:50], *lines[4:]], ["tasks.jsonl:4", "data check"]),
        (lambda lines: [*lines, lines[0]], ["repeats line 1", "remove one"]),
        (
            lambda lines: [lines[0].replace('"schema":1', '"schema":9'), *lines[1:]],
            ["tasks.jsonl:1", "schema: Input should be 1 or 2"],
        ),
        (
            lambda lines: [with_null(lines[0], "tools", "held_out"), *lines[1:]],
            ["tasks.jsonl:1", "tools.held_out: "],
        ),
        (
            lambda lines: [with_null(lines[0], "provenance"), *lines[1:]],
            ["tasks.jsonl:1", "provenance: "],
        ),
        (lambda lines: [], ["no task has the split 'train'"]),
    ],
    ids=[
        "corrupt line",
        "duplicate id",
        "other schema",
        "null held out",
        "null provenance",
        "empty file",
    ],
)
def test_a_bad_task_file(
    finished_run: Path, tmp_path: Path, damage: object, words: list[str]
) -> None:
    assert callable(damage)
    lines = damage(tasks_of(finished_run))
    (tmp_path / "tasks.jsonl").write_text("".join(f"{line}\n" for line in lines))
    line = refused(
        "trainer",
        "new",
        tmp_path / "run",
        "--config",
        config(tmp_path, 'tasks = "desk"', 'tasks = "tasks.jsonl"'),
    )
    for word in words:
        assert word in line


def test_a_null_in_a_task_is_a_fault_that_data_check_names(
    finished_run: Path, tmp_path: Path
) -> None:
    for path in (("provenance",), ("tools", "held_out")):
        (tmp_path / "tasks.jsonl").write_text(with_null(tasks_of(finished_run)[0], *path) + "\n")
        done = rods("data", "check", tmp_path / "tasks.jsonl")
        assert done.returncode == 1, done.stderr
        assert path[-1] in done.stdout
        assert "valid dictionary" in done.stdout or "must be of type object" in done.stdout


def test_a_task_whose_own_ground_truth_fails(finished_run: Path, tmp_path: Path) -> None:
    lines = tasks_of(finished_run)
    record = json.loads(lines[0])
    del record["id"]
    first = next(turn for turn in record["goal"]["calls"] if turn)
    first[0]["arguments"] = {"nonsense": 1}
    (tmp_path / "tasks.jsonl").write_text("\n".join([json.dumps(record), *lines[1:]]) + "\n")
    line = refused(
        "trainer",
        "new",
        tmp_path / "run",
        "--config",
        config(tmp_path, 'tasks = "desk"', 'tasks = "tasks.jsonl"'),
    )
    assert "ground truth" in line
    assert "data check" in line


def test_seeds_of_one_type_only_are_allowed_and_the_reachable_maximum_is_said(
    finished_run: Path, tmp_path: Path
) -> None:
    lines = [line for line in tasks_of(finished_run) if json.loads(line)["type"] == "base"]
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines) + "\n")
    wanted = config(tmp_path, 'tasks = "desk"\ntrain = 16\nheld_out = 12', 'tasks = "tasks.jsonl"')
    wanted.write_text(wanted.read_text().replace("batch_tasks = 8", "batch_tasks = 2"))
    done = rods("trainer", "new", tmp_path / "run", "--config", wanted)
    assert done.returncode == 0, done.stderr
    assert "at most 2 seeds a step, not 6" in done.stdout


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "something").write_text("else")
    assert "is no run folder" in refused("trainer", "new", tmp_path, "--config", config(tmp_path))
    for verb in (["status"], ["trainer", "score"], ["verify"]):
        assert "is not a run folder" in refused(*verb, tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    wanted = config(tmp_path)
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o500)
    assert "make the run folder writable" in refused(
        "trainer", "new", shut / "run", "--config", wanted
    )


def test_an_unknown_environment() -> None:
    assert "own 'package.module:factory'" in refused("env", "check", "atlantis")
    assert "no module 'atlantis'" in refused("env", "check", "atlantis:factory")


def test_the_tasks_of_a_run_are_not_rehashed_in_their_place(run_copy: Path) -> None:
    file = run_copy / "tasks.jsonl"
    before = file.read_bytes()
    for named in (run_copy, file):
        done = rods("data", "rehash", named)
        assert done.returncode == 2 and f"rods trainer fork {run_copy} NEW" in done.stderr
    assert file.read_bytes() == before


def test_a_changed_task_file_in_a_run(run_copy: Path) -> None:
    path = run_copy / "tasks.jsonl"
    path.write_text("\n".join(path.read_text().splitlines()[1:]) + "\n")
    assert "not those that the run was created with" in refused("status", run_copy, code=3)


@pytest.mark.parametrize(
    "content", [b"[1]", b"7", b"not JSON", b'{"step": "x"}', b'{"step": 1, "epoch": 0}', b""]
)
def test_a_tracker_or_heartbeat_that_is_none(run_copy: Path, content: bytes) -> None:
    for name in ("tracker.json", "heartbeat.trainer.json", "heartbeat.daemon.json"):
        (run_copy / name).write_bytes(content)
    verified = rods("verify", run_copy)
    assert (
        verified.returncode == 1
        and "tracker.json" in verified.stdout
        and "Traceback" not in verified.stderr
    )
    assert rods("status", run_copy).returncode == 0


def test_a_manifest_that_is_no_object(run_copy: Path) -> None:
    (run_copy / "manifest.json").write_bytes(b"[]")
    assert "holds no object" in refused("status", run_copy)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("reward", {"kind": "progress", "range": [5, -5]}, "the lower one first"),
        ("reward", {"kind": "progress", "range": [0, 1e309]}, "JSON"),
        ("reward", {"kind": "progress", "range": [-1e308, 1e308]}, "give two finite numbers"),
        ("reward", {"kind": "progress", "range": ["0", "1"]}, "must be a number"),
        ("interface", 5, "it must be a name"),
        ("lineage", 5, "it must be a name"),
        ("rollouts", [{"resolved": 0, "expected": 2, "reward": 1e308}], "lies outside its range"),
    ],
)
def test_a_group_that_no_trainer_means(
    run_copy: Path, field: str, value: object, words: str
) -> None:
    task = json.loads(tasks_of(run_copy)[0])
    turns = len(task["user"]["script"])
    if field == "rollouts":
        value = [{"resolved": 0, "expected": turns, "reward": 1e308}]
    group = {"task": task["id"], "rollouts": [{"resolved": 1, "expected": turns}], field: value}
    lines = json.dumps(group) + "\n" + json.dumps({"end_step": 15}) + "\n"
    done = rods("trainer", "observe", run_copy, stdin=lines)
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr, done


@pytest.mark.parametrize("policy_step", [-99, 15, 99])
def test_weights_of_no_earlier_step(run_copy: Path, policy_step: int) -> None:
    task = json.loads(tasks_of(run_copy)[0])
    group = {
        "task": task["id"],
        "rollouts": [{"resolved": 1, "expected": len(task["user"]["script"])}],
    }
    lines = (
        json.dumps(group) + "\n" + json.dumps({"end_step": 15, "policy_step": policy_step}) + "\n"
    )
    assert "policy_step is" in refused("trainer", "observe", run_copy, stdin=lines)


@pytest.mark.sweep
def test_clocks_that_no_calendar_has(run_copy: Path) -> None:
    for path in [*run_copy.glob("locks/*.owner"), *run_copy.glob("heartbeat.*.json")]:
        stale = {
            "since": 1e308,
            "time": 1e308,
            "boot_id": "another",
            "released": False,
            "state": "working",
        }
        path.write_text(json.dumps(json.loads(path.read_text()) | stale))
    for verb in ("status", "recover"):
        done = rods(verb, run_copy)
        assert "Traceback" not in done.stderr and "no date (1e+308)" in done.stdout, done


@pytest.mark.slow
def test_a_folder_whose_name_is_not_utf_8(finished_run: Path, tmp_path: Path) -> None:
    there = tmp_path / os.fsdecode(b"\xff\xfe")
    shutil.copytree(finished_run, there / "run")
    for verb in (["status"], ["verify"], ["dash", "--export", tmp_path], ["up"], ["recover"]):
        assert "the name is not UTF-8 → give the file or folder a name in UTF-8" in refused(
            *verb, there / "run"
        )
    assert "not UTF-8" in refused("trainer", "new", there / "other", "--config", config(tmp_path))
    assert "not UTF-8" in refused("trainer", "fork", finished_run, there / "other")
    assert "not UTF-8" in refused("status", "run", cwd=there), "records name the working folder too"
    assert [path.name for path in there.iterdir()] == ["run"]
    for program in (["rods.trainer"], ["rods.daemon"], ["rods.family.benchmarks", "run"]):
        command = [sys.executable, "-m", *program, str(there / "run")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (
            done.returncode == 2 and "not UTF-8" in done.stderr and "Traceback" not in done.stderr
        ), done


@pytest.mark.slow
@pytest.mark.parametrize("target", ["/nowhere/x", "locks", "tasks.jsonl"])
def test_locks_that_are_no_folder(run_copy: Path, target: str) -> None:
    shutil.rmtree(run_copy / "locks")
    (run_copy / "locks").symlink_to(target)
    for program in ("trainer", "daemon"):
        done = subprocess.run(
            [sys.executable, "-m", f"rods.{program}", str(run_copy)], capture_output=True, text=True
        )
        assert done.returncode == 2 and "Traceback" not in done.stderr, done
        assert f"{run_copy}/locks" in done.stderr and "→ move aside what is there" in done.stderr, (
            done
        )


@pytest.mark.parametrize("key", ["identity", "tasks", "environments", "warnings"])
@pytest.mark.parametrize("value", [None, 7, [{}]])
def test_a_manifest_with_a_field_of_another_kind(run_copy: Path, key: str, value: object) -> None:
    path = run_copy / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    said = refused("status", run_copy)
    assert f"manifest.{key}" in said and "→ restore it" in said


def test_a_task_file_that_changed_is_told_and_the_run_keeps_its_tasks(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    tasks = list(desk_tasks(7, 12, 4))
    write_task_file(tasks, file)
    config = tmp_path / "run.toml"
    given = CONFIG.replace('tasks = "desk"\ntrain = 16\nheld_out = 12', f'tasks = "{file.name}"')
    config.write_text(given.replace("steps = 14", "steps = 1"))
    run = tmp_path / "run"
    new = ("trainer", "new", run, "--config", config)
    assert rods(*new).returncode == 0
    assert not rods(*new).stderr
    other = desk_tasks(8, 3, 1)
    changed = replace(tasks[1], script=tuple(f"{text} Thanks." for text in tasks[1].script), id="")
    write_task_file([tasks[0], changed, *tasks[4:], *other[:3]], file)
    done = rods(*new)
    assert done.returncode == 0
    assert "3 added, 2 removed, 1 changed; the run keeps the tasks" in done.stderr
    assert "`rods up NEW --config FILE`" in done.stderr
    assert json.loads(rods(*new, "--json").stdout)["originals"] == 12
    done = rods("up", run, cwd=tmp_path)  # the file is looked for from where one stands
    assert done.returncode == 0 and "3 added" in done.stderr
    file.write_text("{}\n")
    assert "rods data check" in rods(*new).stderr
    write_task_file(tasks, file)
    assert not rods(*new).stderr


def test_a_key_that_a_line_names_twice_is_refused_wherever_lines_are_read(
    run_copy: Path, tmp_path: Path
) -> None:
    """One reader would take the first value, another one the last."""
    line, *others = (run_copy / "tasks.jsonl").read_text().splitlines()
    file = tmp_path / "tasks.jsonl"
    for twice in (line[:-1] + ',"type":"base"}', line[:-1] + ',"\\u0074ype":"base"}'):
        file.write_text("\n".join([twice, *others]) + "\n")
        checked = rods("data", "check", file)
        assert checked.returncode == 1 and "names a key twice: 'type'" in checked.stdout
        config = tmp_path / "run.toml"
        config.write_text(f'[data]\ntasks = "{file}"\n')
        assert "names a key twice: 'type'" in refused(
            "trainer", "new", tmp_path / "x", "--config", config
        )
    reported = '{"task":"a","task":"b","rollouts":[]}\n'
    assert "names a key twice: 'task'" in refused("trainer", "observe", run_copy, stdin=reported)
