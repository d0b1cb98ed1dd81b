"""A run folder is created whole or not at all, and opened only by who it belongs to."""

from __future__ import annotations

import dataclasses
import errno
import os
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pytest
import tomli_w

from rods import stored_tasks
from rods.buffers.audit.verify import verify
from rods.buffers.lifecycle import fork
from rods.buffers.run import runfolder
from rods.buffers.run.creation import check, create_run
from rods.buffers.run.run import Run
from rods.buffers.state import read_state
from rods.buffers.trainer_log import TrainerLog
from rods.calls import Call
from rods.config import Config, Sandbox, read_config
from rods.environments.base import reference
from rods.errors import RefusedError, UserError
from rods.stored_tasks import Tasks
from rods.tasks import EnvironmentRef, Task
from rods.worlds.sandbox.environment import Sandboxed
from tests.buffers.world import config, make_run, originals
from tests.environments import ENVIRONMENTS


def test_a_run_opens_as_it_was_created(tmp_path: Path) -> None:
    made = make_run(tmp_path / "run")
    found = Run.open(tmp_path / "run")
    assert found.config == made.config
    assert [*found.tasks] == [*originals()]
    assert len(found.training) + len(found.held_out) == len(found.tasks)
    manifest = found.manifest
    assert manifest["protocol"] == 1
    assert manifest["tasks"]["train"] == len(found.training)
    assert set(manifest["environments"]) == {"desk"}
    assert manifest["random_seeds"] == made.config.random_seeds.model_dump()


def test_the_written_configuration_reads_back(tmp_path: Path) -> None:
    stages = [
        {"types": ["base"], "reward": "format", "expand": False, "epochs": 2},
        {"reward": "progress"},
    ]
    original = config(
        curriculum={"stages": stages}, training={"learning_rate": 1e-6}, sync="lockstep"
    )
    (tmp_path / "config.toml").write_text(tomli_w.dumps(original.model_dump(mode="json")))
    assert read_config(tmp_path / "config.toml") == original


def test_toml_spells_odd_values() -> None:
    values = {
        "text": 'a "quoted"\nline\\ é',
        "empty": [],
        "nested": [["a"], []],
        "number": 1e-9,
        "yes": True,
    }
    assert tomllib.loads(tomli_w.dumps({"a": {"b": values}, "c": 1})) == {
        "a": {"b": values},
        "c": 1,
    }


def test_creating_again_joins_and_another_identity_is_refused_with_the_differences(
    tmp_path: Path,
) -> None:
    make_run(tmp_path / "run")
    joined = make_run(tmp_path / "run", operation={"workers": 3})
    assert joined.config.operation.workers == 3
    with pytest.raises(
        RefusedError, match=r"pool\.max_generated: 6 → 7.*rods trainer fork"
    ) as refused:
        make_run(tmp_path / "run", pool={"max_generated": 7})
    assert "pool.inject_fraction" not in str(refused.value)
    assert refused.value.exit_code == 3


def test_the_loser_of_a_race_joins(tmp_path: Path) -> None:
    originals()
    with ThreadPoolExecutor(8) as threads:
        runs = list(threads.map(lambda _: make_run(tmp_path / "run"), range(8)))
    assert len({orjson.dumps(run.manifest) for run in runs}) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("x")
    with pytest.raises(UserError, match="no run folder"):
        make_run(tmp_path / "run")
    with pytest.raises(UserError, match="rods up"):
        Run.open(tmp_path / "run")


def test_no_task_is_read_to_open_a_run_and_to_say_where_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object) -> None:
        raise AssertionError("a task was read")

    run = make_run(tmp_path / "run")
    monkeypatch.setattr(Tasks, "_parsed", read)
    monkeypatch.setattr(stored_tasks, "checked_lines", read)
    for given in (run, Run.open(run.path)):
        with TrainerLog(given) as trainer:
            trainer.start()
            assert [*trainer.state.active] == [*given.training] == [*given.tasks.ids][:12]
        assert {task: member.type for task, member in trainer.state.active.items()} == {
            task.id: task.type for task in originals() if task.split == "train"
        }
        assert read_state(given).zones()["boundary"] == 0


def test_a_task_that_is_edited_unseen_is_found_by_verify(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    file = run.path / runfolder.TASKS
    before = file.stat()
    file.write_bytes(file.read_bytes().replace(b'"split":"train"', b'"split":"tests"', 1))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(RefusedError, match="not those that the run was created with"):
        _ = Run.open(run.path).tasks[0]
    with pytest.raises(RefusedError, match="not those that the run was created with"):
        verify(run.path)


def test_edited_tasks_and_an_edited_configuration_are_noticed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    file = run.path / runfolder.CONFIG
    text = file.read_text()
    file.write_text(text.replace("max_generated = 6", "max_generated = 9"))
    with pytest.raises(RefusedError, match=r"config\.toml was edited.*max_generated"):
        Run.open(run.path)
    file.write_text(text.replace("deadline_seconds = 0.3", "deadline_seconds = 9.0"))
    assert Run.open(run.path).config.operation.deadline_seconds == 9
    file.rename(run.path / "elsewhere")
    with pytest.raises(UserError, match=r"config\.toml: is missing → restore it"):
        Run.open(run.path)
    (run.path / "elsewhere").rename(file)
    tasks = run.path / runfolder.TASKS
    tasks.write_bytes(tasks.read_bytes() + b"\n")
    with pytest.raises(RefusedError, match="tasks are not those"):
        Run.open(run.path)


def test_another_protocol_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    file = run.path / runfolder.MANIFEST
    file.write_bytes(orjson.dumps({**run.manifest, "protocol": 99}))
    with pytest.raises(RefusedError, match="protocol 99"):
        Run.open(run.path)


def refusal(tasks: list[Task], **changes: object) -> str:
    with pytest.raises(UserError) as refused:
        check(config(**changes), tasks, ENVIRONMENTS)
    assert refused.value.remedy
    return str(refused.value)


def test_tasks_that_a_run_cannot_start_with_are_refused() -> None:
    tasks = list(originals())
    first = tasks[0]
    assert "occurs twice" in refusal([*tasks, first])
    assert "a batch needs 40" in refusal(tasks, training={"batch_tasks": 40})
    elsewhere = dataclasses.replace(first, environment=EnvironmentRef("desk", "0" * 20), id="")
    assert "0000" in refusal([*tasks, elsewhere])
    broken = dataclasses.replace(
        first,
        calls=((Call("rm", {"file": "nothing like it"}),), *first.calls[1:]),
        id="",
        provenance={},
    )
    assert "ground truth" in refusal([*tasks, broken])


def test_a_stage_with_too_few_tasks_of_its_types_is_refused() -> None:
    only_base = [task for task in originals() if task.type == "base"]
    stages = [{"types": ["miss_func"], "epochs": 1}, {}]
    assert "stage 1 has 0 training tasks" in refusal(
        only_base, curriculum={"stages": stages}, training={"batch_tasks": 1}
    )


def test_seeds_of_one_type_only_are_worth_a_warning(tmp_path: Path) -> None:
    only_base = [task for task in originals() if task.type == "base"]
    settings = config(training={"batch_tasks": 1})
    run = create_run(tmp_path / "run", settings, only_base)
    [warning] = run.manifest["warnings"]
    assert "at most 6 seeds a step, not 16" in warning
    assert check(settings, originals(), ENVIRONMENTS) == []


def test_nano_on_another_world_is_worth_a_warning(tmp_path: Path) -> None:
    nano = config(policy={"kind": "nano"}, training={"batch_tasks": 1})
    assert not any("nano" in warning for warning in check(nano, originals(), ENVIRONMENTS))
    toy = ENVIRONMENTS.load("tests.rods.toy_environment:environment")
    done = Call("read", {"note_id": 7})
    notes = {"notes": {"7": {"title": "rent", "body": "pay"}}}
    own = Task(
        reference(toy),
        state=notes,
        tools=("read",),
        type="base",
        script=("Read note 7.",),
        calls=((done,),),
    )
    warned = [warning for warning in check(nano, [own], ENVIRONMENTS) if "nano" in warning]
    assert len(warned) == 1 and toy.name in warned[0] and "desk alone" in warned[0]


def test_a_full_disk_leaves_no_half_made_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    originals()

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(UserError, match="disk is full"):
        make_run(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_a_folder_without_permission_is_named_with_its_remedy(mode: int) -> None:
    originals()
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to others
    folder.chmod(mode)
    child = os.fork()
    if child == 0:  # root may write anywhere, so become nobody
        code = 1
        try:
            if os.getuid() == 0:
                os.setuid(65534)
            make_run(folder / "run")
        except UserError as error:
            code = 0 if "writable" in str(error) else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    folder.chmod(0o755)
    folder.rmdir()
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_new_version_of_an_environment_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    run.manifest["environments"]["desk"] = "0" * 20
    with pytest.raises(RefusedError, match="install that version"):
        run.check_environments()


def test_defaults_are_a_legal_configuration() -> None:
    assert read_back(Config()) == Config()


def read_back(original: Config) -> Config:
    values = tomllib.loads(tomli_w.dumps(original.model_dump(mode="json")))
    return Config.model_validate_json(orjson.dumps(values))


def test_a_model_that_has_moved_is_found_by_the_configuration_of_the_next_start(
    tmp_path: Path,
) -> None:
    def asked(folder: str) -> Config:
        file = tmp_path / folder / "c.toml"
        file.parent.mkdir()
        file.write_text(
            tomli_w.dumps(config().model_dump(mode="json", exclude={"policy"}))
            + "[policy]\nkind = 'transformers'\n"
        )
        file.write_text(file.read_text() + "model = 'm/qwen'\n")
        return read_config(file)

    path = tmp_path / "run"
    create_run(path, asked("old"), list(originals()))
    # from any folder, on its own
    assert Run.open(path).config.policy.model == str(tmp_path / "old" / "m" / "qwen")
    assert Run.open(path, asked("new")).config.policy.model == str(tmp_path / "new" / "m" / "qwen")
    forked = fork(Run.open(path), tmp_path / "fork")
    assert Run.open(forked.path).config.policy.model == str(tmp_path / "old" / "m" / "qwen")


def test_opening_runs_changes_nothing_for_one_another(tmp_path: Path) -> None:
    made = create_run(tmp_path / "run", config(), list(originals()))
    sandbox = Sandbox(environments=("desk",), workers=1, lowest_tier="limits")
    operation = made.config.operation.model_copy(update={"sandbox": sandbox})
    confined = Run.open(made.path, made.config.model_copy(update={"operation": operation}))
    again = Run.open(made.path)
    with confined.environments as environments:
        assert isinstance(environments.load("desk"), Sandboxed)
        assert not any(
            isinstance(run.environments.load("desk"), Sandboxed) for run in (made, again)
        )
        for run in (made, confined, again):
            run.check_environments()
