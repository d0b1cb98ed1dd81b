"""`rods-train` as a process: resume, signals, refusals, and what it says about bad input."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest

from bench.fixtures.chat_templates import template
from rods.buffers.log.tail import read
from rods.buffers.run.runfolder import OBSERVATIONS
from rods.errors import EXIT_OK, EXIT_REFUSED, EXIT_REQUEUE, EXIT_USER
from tests import dying
from tests.trainer.runs import NANO, command, complaint, live_steps, train, write_config


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    assert train(folder / "run", write_config(folder / "c.toml")).returncode == EXIT_OK
    return folder / "run"


def wait_for_steps(run: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    log = run / "observations.jsonl"
    while not log.exists() or log.read_bytes().count(b'"kind":"step"') < count:
        assert time.monotonic() < deadline, "no steps"
        time.sleep(0.01)


def test_a_finished_run_stays_finished(whole: Path) -> None:
    assert [step for step, *_ in live_steps(whole)] == list(range(1, 41))
    assert orjson.loads((whole / "tracker.json").read_bytes())["step"] == 40
    before = (whole / "observations.jsonl").read_bytes()
    assert train(whole).returncode == EXIT_OK
    assert (whole / "observations.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "last_word",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, marks=pytest.mark.sweep),
    ],
)
def test_a_stopped_run_continues_as_if_nothing_had_happened(
    tmp_path: Path, whole: Path, last_word: int
) -> None:
    run = tmp_path / "run"
    config = write_config(tmp_path / "c.toml", {"operation.steps_per_second": 40.0})
    thirteenth = [record for record in read(whole / OBSERVATIONS) if record["kind"] == "step"][12]
    code = subprocess.run(
        [
            *(sys.executable, "-m", dying.MODULE, run, "--config", config),
            *dying.at("rods.trainer", OBSERVATIONS, thirteenth["seq"], last_word),
        ],
        stderr=subprocess.DEVNULL,
        check=False,
    ).returncode
    assert code == (-signal.SIGKILL if last_word == signal.SIGKILL else EXIT_REQUEUE)
    reached = len(live_steps(run))
    assert 13 <= reached < 40
    again = train(run, config)
    assert again.returncode == EXIT_OK
    assert live_steps(run) == live_steps(whole)
    begun = next(
        line for line in map(orjson.loads, again.stderr.splitlines()) if line["event"] == "start"
    )
    assert begun.get("repeats_steps", 0) == reached - begun["from_step"]
    starts = [record for record in read(run / "observations.jsonl") if record["kind"] == "start"]
    assert [start["from_step"] for start in starts] == [
        0,
        10 if last_word == signal.SIGKILL else reached,
    ]


def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_is_used(
    tmp_path: Path, whole: Path
) -> None:
    run = tmp_path / "run"
    config = write_config(tmp_path / "c.toml", {"operation.step_limit": 25})
    assert train(run, config).returncode == EXIT_REQUEUE
    newest = run / "checkpoints" / "step_00000025.a1"
    (newest / "policy" / "simulated.json").write_text('{"skill":9.0}')
    done = train(run, write_config(tmp_path / "again.toml"))
    assert done.returncode == EXIT_OK
    assert "moved aside" in done.stderr
    assert (run / "checkpoints" / "incomplete" / newest.name / "policy" / "simulated.json").exists()
    assert live_steps(run) == live_steps(whole)


@pytest.mark.slow
def test_operation_may_change_at_every_start_and_is_logged(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for limit in (3, 4):
        config = write_config(tmp_path / "c.toml", {"operation.step_limit": limit})
        assert train(run, config).returncode == EXIT_REQUEUE
    assert len(live_steps(run)) == 7
    told = [
        orjson.loads(line) for line in (run / "operation.trainer.jsonl").read_bytes().splitlines()
    ]
    assert [start["operation"]["step_limit"] for start in told if start["kind"] == "started"] == [
        3,
        4,
    ]


def test_another_identity_is_refused_with_a_diff_and_a_way_out(tmp_path: Path, whole: Path) -> None:
    done = train(
        whole, write_config(tmp_path / "c.toml", {"training.steps": 50, "zones.window": 4})
    )
    assert done.returncode == EXIT_REFUSED
    line = complaint(done)
    assert (
        "training.steps: 40 → 50" in line
        and "zones.window: 8 → 4" in line
        and "rods trainer fork" in line
    )


@pytest.mark.slow
def test_a_second_trainer_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = write_config(tmp_path / "c.toml", {"operation.steps_per_second": 2.0})
    first = subprocess.Popen(command(run, config), stderr=subprocess.DEVNULL)
    try:
        wait_for_steps(run, 1)
        second = train(run, config)
        assert second.returncode == EXIT_REFUSED
        assert f"pid {first.pid}" in complaint(second)
        assert first.poll() is None
    finally:
        first.terminate()
        assert first.wait(timeout=60) == EXIT_REQUEUE


@pytest.mark.slow
def test_two_that_create_a_run_at_once_share_it(tmp_path: Path) -> None:
    config = write_config(tmp_path / "c.toml", {"training.steps": 5})
    both = [
        subprocess.Popen(command(tmp_path / "run", config), stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    codes = [process.wait(timeout=60) for process in both]
    for process in both:
        assert process.stderr is not None
        process.stderr.close()
    assert EXIT_OK in codes and set(codes) <= {EXIT_OK, EXIT_REFUSED}
    assert len(live_steps(tmp_path / "run")) == 5
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.few(2, others="slow")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"training.learning_rat": 0.1},
            ("c.toml", "training.learning_rat", "unknown key", "docs/configuration.md"),
        ),
        ({"training.batch_tasks": "many"}, ("c.toml", "training.batch_tasks", "integer")),
        ({"rollouts.rollouts_per_task": 1}, ("rollouts_per_task = 1", "at least 2")),
        (
            {"training.batch_tasks": 32},
            ("training.batch_tasks", "24 training tasks", "lower it to 24"),
        ),
        ({"data.tasks": "missing.jsonl"}, ("missing.jsonl", "No such file", "data.tasks")),
    ],
)
def test_bad_configurations_are_one_line_with_place_reason_and_remedy(
    tmp_path: Path, changes: dict[str, object], words: tuple[str, ...]
) -> None:
    done = train(tmp_path / "run", write_config(tmp_path / "c.toml", changes))
    assert done.returncode == EXIT_USER
    assert all(word in complaint(done) for word in words), done.stderr
    assert not (tmp_path / "run").exists()


def test_a_run_that_does_not_exist_needs_a_configuration(tmp_path: Path) -> None:
    done = train(tmp_path / "nothing")
    assert done.returncode == EXIT_USER
    assert "is not a run folder" in complaint(done)
    done = train(tmp_path / "nothing", tmp_path / "no.toml")
    assert done.returncode == EXIT_USER
    assert "cannot read the configuration" in complaint(done)


@pytest.mark.needs("bfcl")
def test_a_missing_data_set_is_a_message(tmp_path: Path) -> None:
    config = write_config(tmp_path / "c.toml", {"data.tasks": "bfcl"})
    done = train(
        tmp_path / "run", config, env={**os.environ, "RODS_CACHE": str(tmp_path / "cache")}
    )
    assert done.returncode == EXIT_USER
    assert str(tmp_path / "cache") in complaint(done) and "rods data bfcl" in complaint(done)


def test_a_missing_model_is_a_message(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    changes = {"policy.kind": "transformers", "policy.model": str(tmp_path / "none")}
    done = train(tmp_path / "run", write_config(tmp_path / "c.toml", changes))
    assert done.returncode == EXIT_USER
    assert f"{tmp_path / 'none'}: there is no model → policy.model" in complaint(done)
    assert not (tmp_path / "run").exists()


def test_a_tokenizer_without_a_chat_template_is_a_message(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    model = tmp_path / "model"
    model.mkdir()
    words = tokenizers.models.WordLevel({"a": 0, "<end>": 1}, unk_token="a")
    tokenizers.Tokenizer(words).save(str(model / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>"}
    (model / "tokenizer_config.json").write_bytes(orjson.dumps(settings))
    changes = {"policy.kind": "transformers", "policy.model": str(model)}
    done = train(tmp_path / "run", write_config(tmp_path / "c.toml", changes))
    assert done.returncode == EXIT_USER
    assert all(
        word in complaint(done) for word in (str(model), "no chat template", "instruction-tuned")
    )


def test_a_tokenizer_of_gigabytes_is_a_message(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    model = tmp_path / "model"
    model.mkdir()
    with (model / "tokenizer.json").open("wb") as file:
        file.truncate(8 << 30)  # takes no room on the disk
    changes = {"policy.kind": "transformers", "policy.model": str(model)}
    done = train(tmp_path / "run", write_config(tmp_path / "c.toml", changes))
    assert done.returncode == EXIT_USER
    assert f"{model / 'tokenizer.json'}: is a file of more than" in complaint(done)


def broken(lines: list[bytes], fault: str) -> list[bytes]:
    """The task file with one fault in line 3."""
    record = orjson.loads(lines[2])
    if fault == "corrupt":
        lines[2] = lines[2][:-20]
    elif fault == "edited":
        lines[2] = orjson.dumps(
            {**record, "user": {"script": ["other", *record["user"]["script"][1:]]}}
        )
    elif fault == "duplicate":
        lines[2] = lines[1]
    else:
        del record["id"], record["provenance"]
        if fault == "ground truth":
            record["goal"]["calls"][-1] = [
                {"name": record["tools"]["names"][0], "arguments": {"no": "such"}}
            ]
        else:
            record["environment"]["hash"] = "older"
        lines[2] = orjson.dumps(record)
    return lines


@pytest.mark.few(2, others="slow")
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("corrupt", ("t.jsonl:3", "rods data check")),
        ("edited", ("t.jsonl:3", "does not match the content", "rods data check")),
        ("duplicate", ("t.jsonl:3", "repeats line 2", "remove one")),
        ("ground truth", ("ground truth of task", "fails", "rods data check")),
        ("environment", ("was written for version older", "install that version")),
    ],
)
def test_bad_task_files_are_one_line_with_place_reason_and_remedy(
    tmp_path: Path, whole: Path, fault: str, words: tuple[str, ...]
) -> None:
    lines = broken((whole / "tasks.jsonl").read_bytes().splitlines(), fault)
    (tmp_path / "t.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    done = train(tmp_path / "run", write_config(tmp_path / "c.toml", {"data.tasks": "t.jsonl"}))
    assert done.returncode == EXIT_USER
    assert all(word in complaint(done) for word in words), done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_full_disk_is_a_message_and_the_run_continues_once_there_is_room(
    tmp_path: Path, whole: Path
) -> None:
    """On a tmpfs of its own, in a mount namespace: first too small, then resized."""
    disk = tmp_path / "disk"
    config = write_config(tmp_path / "c.toml")
    disk.mkdir()
    start = " ".join(command(disk / "run", config))
    script = f"""
        mount -t tmpfs -o size=300k none {disk} || exit 77
        {start}; echo "code $?"
        mount -o remount,size=64m {disk}
        {start}; echo "code $?"
        cp -r {disk}/run {tmp_path}/copy
    """
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, timeout=60
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no mount namespaces here")
    assert done.stdout.split("\n")[:2] == [f"code {EXIT_USER}", f"code {EXIT_OK}"], done.stderr
    assert "Traceback" not in done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("rods-train: ")]
    assert "the disk is full" in told[0] and "free some space" in told[0]
    assert live_steps(tmp_path / "copy") == live_steps(whole)


@pytest.mark.slow
def test_a_read_only_run_folder_is_a_message(tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = write_config(tmp_path / "c.toml", {"operation.step_limit": 3})
    assert train(run, config).returncode == EXIT_REQUEUE
    script = (
        f"mount --bind {run} {run} && mount -o remount,bind,ro {run} || exit 77; "
        f"{' '.join(command(run))}"
    )
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, timeout=60
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no mount namespaces here")
    assert done.returncode == EXIT_USER
    assert "make the run folder writable" in complaint(done)
    assert os.access(run, os.W_OK)


@pytest.mark.slow
def test_a_step_that_outlasts_the_grace_period_is_interrupted(tmp_path: Path) -> None:
    """The exit code says "again", and the checkpoint before stands."""
    run = tmp_path / "run"
    config = write_config(tmp_path / "c.toml", {"operation.grace_seconds": 0.5})
    code = (
        "import sys, time; from rods.trainer import main, simulated\n"
        "def step(self, batch):\n    print('in a step', flush=True); time.sleep(100)\n"
        "simulated.SimulatedPolicy.groups = step\n"
        "sys.exit(main.run(sys.argv[1:]))"
    )
    arguments = [sys.executable, "-c", code, str(run), "--config", str(config)]
    child = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "in a step\n"
    child.send_signal(signal.SIGUSR1)
    _, error = child.communicate(timeout=60)
    assert child.returncode == EXIT_REQUEUE
    assert "outlasted the grace period" in error
    assert (run / "checkpoints" / "step_00000000.a1" / "manifest.json").exists()


@pytest.mark.slow
def test_what_comes_before_the_first_step_is_not_waited_for(tmp_path: Path) -> None:
    """nano's demonstrations take a minute, in which nobody asks whether to stop."""
    run = tmp_path / "run"
    nano = {"policy.kind": "nano", "policy.dialect": "compact", "policy.warm_start_steps": 9}
    config = write_config(tmp_path / "c.toml", nano)
    environment = {**os.environ, "RODS_CACHE": str(tmp_path / "cache")}
    child = subprocess.Popen(
        command(run, config), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    )
    while not (run / "operation.trainer.jsonl").exists() and child.poll() is None:
        time.sleep(0.05)  # its imports are next
    child.send_signal(signal.SIGTERM)
    _, error = child.communicate(timeout=300)
    assert child.returncode == EXIT_REQUEUE
    assert b"before the first one" in error
    assert not (tmp_path / "cache" / "nano").exists()


def test_a_dashboard_that_is_not_there_is_refused_before_anything_is_trained(
    tmp_path: Path,
) -> None:
    report = {"operation.report_to": ["trackio"]}
    refused = train(tmp_path / "run", write_config(tmp_path / "c.toml", NANO | report))
    assert (
        refused.returncode == EXIT_USER
        and "operation.report_to: the package trackio is not installed" in refused.stderr
    )
    refused = train(
        tmp_path / "other", write_config(tmp_path / "c.toml", {"operation.report_to": ["comet"]})
    )
    assert (
        refused.returncode == EXIT_USER
        and "'wandb', 'trackio', 'mlflow' or 'tensorboard'" in refused.stderr
    )


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("deepseekv3", "its chat template writes the calls of DeepSeek V3"),
        ("muse_glimmer", "its chat template documents tools in a form that no family here has"),
    ],
)
def test_a_chat_template_that_does_not_fit_is_refused_before_torch_is_loaded(
    tmp_path: Path, name: str, why: str
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "chat_template.jinja").write_text(template(name), encoding="utf-8")
    policy = {"policy.kind": "transformers", "policy.model": str(model)}
    config = write_config(tmp_path / "c.toml", {**policy, "policy.dialect": "native"})
    code = "import sys; from rods.trainer import main; code = main.run(sys.argv[1:]); "
    code += "raise SystemExit(99 if 'torch' in sys.modules else code)"
    arguments = [sys.executable, "-c", code, str(tmp_path / "run"), "--config", str(config)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_USER, done.stderr
    assert why in done.stderr and 'policy.dialect = "hermes"' in done.stderr
    assert not (tmp_path / "run").exists()
