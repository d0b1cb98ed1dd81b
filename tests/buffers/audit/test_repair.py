"""What a crash or a bad disk leaves behind is explained and put right; nothing is deleted, nothing
whole is lost."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from rods.buffers.audit.repair import carry_out, examine
from rods.buffers.audit.verify import verify
from rods.buffers.lifecycle import fork
from rods.buffers.log.parts import segments
from rods.buffers.log.tail import read, read_raw
from rods.buffers.run.heartbeat import ProcessLocation
from rods.buffers.run.locks import Owner
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import (
    EXPANDED,
    LOCKS,
    LOSSES,
    OBSERVATIONS,
    POOL,
    RECOVERED,
    SEEDS,
    TRACKER,
)
from rods.buffers.state import RunState, read_state
from rods.buffers.trainer_log import TrainerLog
from rods.console.main import run as rods
from rods.errors import CorruptLogError, RefusedError
from tests.buffers.world import Players, SyncDaemonLog, make_run


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Six epochs, a rewind, and parts of a few kilobytes."""
    run = make_run(tmp_path_factory.mktemp("played") / "run", operation={"log_part_bytes": 9_000})
    for from_step, epochs in ((None, (0, 1, 2, 3)), (11, (3, 4, 5, 6))):
        with TrainerLog(run) as trainer, SyncDaemonLog(run) as daemon:
            trainer.start(from_step)
            players = Players(run, trainer, daemon)
            players._fresh = iter(list(players._fresh)[daemon.state.last_considered :])
            for epoch in epochs:
                if epoch > trainer.state.epoch:
                    players.epoch(epoch)
    assert verify(run.path).problems == []
    return run


@pytest.fixture
def run(played: Run, tmp_path: Path) -> Run:
    shutil.copytree(played.path, tmp_path / "run")
    return Run.open(tmp_path / "run")


def texts(run: Run, log: str) -> list[bytes]:
    return [text for part in segments(run.path / log) for text in part.read_bytes().splitlines()]


def hit(run: Run, log: str, kind: str, number: int = -1) -> tuple[Path, int]:
    """Flips a bit in a record of `kind`; returns its part and seq."""
    found = []
    for part in segments(run.path / log):
        offset = 0
        for text in part.read_bytes().splitlines(keepends=True):
            content = orjson.loads(text)
            if content["kind"] == kind:
                found.append((part, offset + len(text) // 2, content["seq"]))
            offset += len(text)
    part, place, seq = found[number]
    data = bytearray(part.read_bytes())
    data[place] ^= 4
    part.write_bytes(data)
    return part, seq


def recover(run: Run) -> Path:
    return carry_out(run, examine(run))


def test_a_sound_run_has_nothing_to_recover(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert examine(run) == []
    assert rods(["recover", str(run.path)]) == 0
    assert "nothing to recover" in capsys.readouterr().out
    assert not (run.path / RECOVERED).exists()


@pytest.mark.parametrize(
    ("log", "kind"), [(OBSERVATIONS, "group"), (SEEDS, "finished"), (EXPANDED, "expanded")]
)
def test_whole_records_around_damage_stay_and_the_lost_one_is_marked(
    run: Run, log: str, kind: str
) -> None:
    before = texts(run, log)
    part, seq = hit(run, log, kind, 5)
    damaged = part.read_bytes()
    with pytest.raises(CorruptLogError, match="rods recover"):
        list(read(run.path / log))
    aside = recover(run)
    after = texts(run, log)
    assert [text for number, text in enumerate(after, 1) if number != seq] == [
        text for number, text in enumerate(before, 1) if number != seq
    ]
    assert orjson.loads(after[seq - 1])["kind"] == "lost"
    assert (aside / part.name).read_bytes() == damaged
    assert examine(run) == []
    assert sum(1 for _ in read_raw(run.path / log)) == len(before)


def test_what_was_written_while_a_person_thought_it_over_stays(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with TrainerLog(run) as trainer, SyncDaemonLog(run) as daemon:
        trainer.start()
        players = Players(run, trainer, daemon)
        players.epoch(0)
        hit(run, OBSERVATIONS, "group", 2)
        repairs = examine(run)
        players.epoch(1)
        last = trainer.state.last_step
    carry_out(run, repairs)
    assert read_state(run).last_step == last
    assert examine(run) == []


def test_what_is_no_longer_as_it_was_agreed_to_is_left_alone(run: Run) -> None:
    hit(run, OBSERVATIONS, "group", 2)
    repairs = examine(run)
    hit(run, SEEDS, "finished")
    before = [texts(run, log) for log in (OBSERVATIONS, SEEDS)]
    with pytest.raises(RefusedError, match="has changed since"):
        carry_out(run, repairs)
    assert [texts(run, log) for log in (OBSERVATIONS, SEEDS)] == before
    assert not list((run.path / RECOVERED).iterdir())


def test_a_run_in_lockstep_goes_on_after_the_loss_of_a_considered_step(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", sync="lockstep")
    with TrainerLog(run) as trainer, SyncDaemonLog(run) as daemon:
        trainer.start()
        players = Players(run, trainer, daemon)
        players.epoch(0)
        players.epoch(1)
    hit(run, SEEDS, "considered", 1)
    recover(run)
    with TrainerLog(run) as trainer, SyncDaemonLog(run) as daemon:
        trainer.start()
        assert Players(run, trainer, daemon).trainer.merge(2, 1).number == 2


def test_a_group_that_lost_a_record_still_counts_and_verify_names_what_is_missing(run: Run) -> None:
    hit(run, OBSERVATIONS, "group", 6)  # of step 2
    recover(run)
    state = RunState(run, strict=True)
    steps = {step.step: len(step.records) for step in state.steps()}
    assert list(steps) == list(range(1, state.last_step + 1))
    assert steps[2] == 3 and steps[3] == 4
    problems = [problem["what"] for problem in verify(run.path).problems]
    assert any("closes 3 records, not 4" in what for what in problems)


@pytest.mark.parametrize("number", [0, -1])
@pytest.mark.parametrize("kind", ["injected", "retired"])
def test_a_lost_decision_is_derived_again_byte_for_byte(run: Run, kind: str, number: int) -> None:
    before = texts(run, POOL)
    hit(run, POOL, kind, number)
    recover(run)
    assert texts(run, POOL) == before
    assert verify(run.path).problems == []


def test_from_a_merge_whose_own_record_is_lost_pool_and_trainer_go_back(run: Run) -> None:
    before = texts(run, POOL)
    _, seq = hit(run, POOL, "epoch", 2)
    aside = recover(run)
    after = texts(run, POOL)
    assert after == before[: len(after)] and len(after) < seq
    assert sum(len(path.read_bytes()) for path in aside.iterdir()) > 0
    with TrainerLog(run) as trainer, SyncDaemonLog(run) as daemon:
        kept = trainer.state.epoch
        trainer.start(trainer.state.pool.epochs[-1].step)
        Players(run, trainer, daemon).epoch(kept)
        trainer.merge(kept + 1, 1)
    assert verify(run.path).problems == []


def test_a_lost_start_is_written_again(run: Run) -> None:
    facts = [step.record for step in RunState(run, strict=True).steps()]
    _, seq = hit(run, OBSERVATIONS, "start", -1)
    recover(run)
    found = orjson.loads(texts(run, OBSERVATIONS)[seq - 1])
    assert (found["kind"], found["attempt"], found["from_step"]) == ("start", 2, 11)
    assert [step.record for step in RunState(run, strict=True).steps()] == facts


@pytest.mark.slow
def test_whatever_byte_is_hit_every_record_elsewhere_is_kept_and_the_logs_open_again(
    played: Run, tmp_path: Path
) -> None:
    rng = random.Random(5)
    for turn in range(12):
        shutil.copytree(played.path, tmp_path / str(turn))
        run = Run.open(tmp_path / str(turn))
        log = rng.choice([OBSERVATIONS, POOL, SEEDS, EXPANDED])
        part = rng.choice(segments(run.path / log))
        before = set(texts(run, log))
        data = bytearray(part.read_bytes())
        place = rng.choice([rng.randrange(len(data)), len(data) - 1, data.index(b"\n")])
        if turn % 4 == 3:
            data[place : place + rng.randrange(1, 900)] = b"\0" * 50
        else:
            data[place] ^= 1 << rng.randrange(8)
        part.write_bytes(data)
        alone = {text for text in before if text in bytes(data)}
        recover(run)
        after = texts(run, log)
        if log != POOL:
            assert alone <= set(after), (turn, log, place)
        seqs = [found["seq"] for found in read_raw(run.path / log)]
        assert seqs == list(range(1, len(seqs) + 1))
        assert examine(run) == []
        verify(run.path)
        shutil.rmtree(run.path)


def test_a_part_that_is_gone_leaves_marks_in_its_place(run: Run) -> None:
    parts = segments(run.path / OBSERVATIONS)
    count = len(texts(run, OBSERVATIONS))
    parts[1].rename(run.path.parent / "elsewhere")
    recover(run)
    kinds = [orjson.loads(text)["kind"] for text in texts(run, OBSERVATIONS)]
    assert len(kinds) == count
    assert kinds.count("lost") == (run.path.parent / "elsewhere").read_bytes().count(b"\n")


def test_a_line_cut_short_is_put_right_as_at_every_start(run: Run) -> None:
    whole = (run.path / POOL).read_bytes()
    (run.path / POOL).write_bytes(whole + b'{"seq":9,"id"')
    [repair] = examine(run)
    assert "cut short" in repair.what
    recover(run)
    assert (run.path / POOL).read_bytes() == whole
    assert (run.path / f"{POOL}.torn.{len(whole)}").read_bytes() == b'{"seq":9,"id"'


def test_leftovers_and_locks_of_lost_machines_are_moved_aside(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rods.buffers.run.locks.moves", lambda *given: False)
    (run.path / ".tracker.json.77.tmp").write_bytes(b"half")
    gone = Owner("trainer", ProcessLocation("node9", 1, "another boot", "815"), 1767225600.0)
    (run.path / LOCKS / f"{OBSERVATIONS}.owner").write_bytes(orjson.dumps(gone.as_json()))
    assert len(examine(run)) == 2
    aside = recover(run)
    assert {path.name for path in aside.iterdir()} == {
        ".tracker.json.77.tmp",
        f"{OBSERVATIONS}.owner",
    }
    assert examine(run) == []


def test_nothing_is_repaired_under_a_living_process(run: Run) -> None:
    hit(run, SEEDS, "finished")
    before = texts(run, SEEDS)
    code = (
        "import sys; from pathlib import Path; from rods.buffers.run.locks import Ownership\n"
        "Ownership(Path(sys.argv[1]), 'observations.jsonl', 'trainer'); print(flush=True); "
        "sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(run.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    with pytest.raises(RefusedError, match=f"pid {child.pid}"):
        recover(run)
    child.communicate(b"")
    assert texts(run, SEEDS) == before
    assert not (run.path / RECOVERED).exists()


def test_the_verb_explains_and_waits_for_a_yes(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    hit(run, POOL, "injected")
    before = texts(run, POOL)
    assert rods(["recover", str(run.path)]) == 1
    said = capsys.readouterr().out
    # what made its reader ask for this
    with pytest.raises(CorruptLogError, match="does not match") as refused:
        list(read(run.path / POOL))
    (place,) = re.findall(r"byte \d+", str(refused.value))
    assert f"damaged from {place} on" in said and "add --yes" in said
    assert texts(run, POOL) == before
    assert rods(["recover", str(run.path), "--yes"]) == 0
    assert "everything agrees" in capsys.readouterr().out


def test_after_a_repair_the_verb_says_whether_the_run_can_go_on(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    hit(run, OBSERVATIONS, "group", 5)
    assert rods(["recover", str(run.path), "--yes"]) == 0
    said = capsys.readouterr().out
    assert (
        "was lost to damage" in said
        and f"the run can go on without what was lost: `rods up {run.path}`" in said
    )
    with TrainerLog(Run.open(run.path)) as trainer:
        trainer.start()
    hit(run, OBSERVATIONS, "group", 7)
    for part in segments(run.path / EXPANDED):
        part.write_bytes(b"")
    assert rods(["recover", str(run.path), "--yes"]) == 1
    assert "the next start will refuse this run" in capsys.readouterr().out


def test_what_a_repair_has_left_is_a_known_loss_and_nothing_else_is(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    _, seq = hit(run, OBSERVATIONS, "group", 5)
    assert rods(["verify", str(run.path)]) == 1
    assert not (run.path / LOSSES).exists()
    assert rods(["recover", str(run.path), "--yes"]) == 0
    left = {problem["what"] for problem in verify(run.path).problems}
    assert f"record {seq} was lost to damage" in left
    assert {loss["what"] for loss in read(run.path / LOSSES)} == left
    capsys.readouterr()
    assert rods(["verify", str(run.path), "--json"]) == 0
    told = orjson.loads(capsys.readouterr().out)
    assert {problem["what"] for problem in told["known"]} == left and told["problems"] == []
    assert rods(["recover", str(run.path), "--yes"]) == 0  # and once more: nothing is left to do
    with TrainerLog(Run.open(run.path)) as trainer:
        trainer.start()
        Players(run, trainer, None).epoch(trainer.state.epoch + 1)
    # the steps behind the loss follow from what is there
    assert rods(["verify", str(run.path)]) == 0
    assert "everything agrees but for" in capsys.readouterr().out
    hit(run, POOL, "epoch", 2)
    assert rods(["verify", str(run.path)]) == 1


def test_a_repair_that_lost_nothing_agrees_to_nothing(run: Run) -> None:
    """A checkpoint's or a tracker's fault is no loss of the repair's, though both are there at
    once."""
    tracker = orjson.loads((run.path / TRACKER).read_bytes())
    tracker["tasks"].clear()
    (run.path / TRACKER).write_bytes(orjson.dumps(tracker))
    (run.path / ".observations.jsonl.tmp").write_bytes(b"never finished")
    assert rods(["recover", str(run.path), "--yes"]) == 1
    assert not (run.path / LOSSES).exists()


def test_a_run_whose_pool_lost_a_variant_says_so_and_can_be_forked(
    run: Run, tmp_path: Path
) -> None:
    state = read_state(run)
    task_id = next(member.task_id for member in state.pool.generated)
    seq = state.pool.injected[task_id]
    place = next(
        index for index, text in enumerate(texts(run, EXPANDED)) if orjson.loads(text)["seq"] == seq
    )
    hit(run, EXPANDED, "expanded", place)
    recover(run)
    with pytest.raises(CorruptLogError, match=r"lost to damage .*rods trainer fork"):
        read_state(run).task(task_id)
    problems = [problem["what"] for problem in verify(run.path).problems]
    assert any(f"record {seq} was lost" in what for what in problems)
    forked = fork(run, tmp_path / "forked")
    assert forked.manifest["parent"]["lost"] == [task_id]
    assert set(forked.training) == set(state.active) - {task_id}
