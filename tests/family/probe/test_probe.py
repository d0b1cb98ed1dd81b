"""The probe, from the logs of real runs: of each pick one variant stays, the others are refused,
and verify says so."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.folds.staging import Candidate
from rods.buffers.log.record_bytes import Damage, Record, record
from rods.buffers.log.tail import read
from rods.buffers.log.writer import LogWriter
from rods.buffers.merging.rules import Refusal
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED, OBSERVATIONS, POOL
from rods.buffers.state import read_state
from rods.config import parse_config, read_config
from rods.console.api import open_training
from rods.console.foreign_trainer import merge
from rods.console.progress import Progress
from rods.errors import RefusedError, UserError
from rods.family.probe.contest import Probes
from rods.family.probe.settings import PROBES
from rods.faults import ENDS
from rods.trainer import simulated
from rods.trainer.training_run import TrainingRun
from rods.worlds import desk
from rods.worlds.sources import load_tasks
from tests.buffers.audit.test_verify import problems, rewrite
from tests.daemon.runs import Daemon
from tests.trainer.kills import ANY_SEED, COMMON, POLICIES
from tests.trainer.runs import train, write_config

VARIANTS = 3
ROLLOUTS = 2
STEPS = 14
TASKS = desk.generate(7, 16, 4)


def values(**changes: Any) -> dict[str, Any]:
    """A configuration with some `changes` of its sections."""
    base: dict[str, Any] = {
        "sync": "lockstep",
        "policy": {"kind": "simulated", "skill": 0.5},
        "rollouts": {"rollouts_per_task": 4},
        "training": {"batch_tasks": 8, "steps": STEPS, "checkpoint_steps": 3},
        "pipeline": {"variants_per_seed": VARIANTS},
        "probe": {"enabled": True, "rollouts": ROLLOUTS},
        "selection": {"seeds_per_step": 2, "exclusion_steps": 0},
        "pool": {"inject_fraction": 0.13},  # two of 16, so that picks wait
        "operation": {"poll_seconds": 0.02, "deadline_seconds": 120.0},
    }
    for section, keys in changes.items():
        base[section] = base.get(section, {}) | keys if isinstance(keys, dict) else keys
    return base


def made(path: Path, **changes: Any) -> Run:
    return create_run(path, parse_config(values(**changes), where="test"), TASKS)


def trained(run: Run) -> None:
    """The trainer's part, to its end or to what it raises."""
    with TrainingRun(run) as training:
        simulated.train(training)


def probes(path: Path) -> list[Record]:
    return list(read(path / PROBES))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run in lockstep, with a real daemon."""
    run = made(tmp_path_factory.mktemp("probe") / "run")
    with Daemon(run.path):
        trained(run)
    return run


@pytest.fixture
def spoilt(run: Run, tmp_path: Path) -> Run:
    """A copy, to be altered."""
    shutil.copytree(run.path, tmp_path / "run")
    return Run.open(tmp_path / "run")


def mean(variant: Record) -> Fraction:
    parts = [Fraction(played["resolved"], played["expected"]) for played in variant["rollouts"]]
    return sum(parts, Fraction(0)) / len(parts)


def test_of_each_pick_the_variant_nearest_to_one_half_comes_and_all_others_are_refused(
    run: Run,
) -> None:
    written = defaultdict[str, list[int]](list)
    for variant in read(run.path / EXPANDED):
        written[variant["pick"]].append(variant["seq"])
    assert sum(len(several) == VARIANTS for several in written.values()) > 3
    decided = {one["expanded"]: one for one in read(run.path / POOL) if "expanded" in one}
    probed = defaultdict[str, list[Record]](list)
    for one in probes(run.path):
        for variant in one["variants"]:
            probed[variant["pick"]].append({**variant, "epoch": one["epoch"]})
    kept = []
    for pick, variants in probed.items():
        assert {one["expanded"] for one in variants} <= set(written[pick]) <= decided.keys(), (
            "nothing is left"
        )
        if len(variants) > 1:
            assert {len(one["rollouts"]) for one in variants} == {ROLLOUTS}
            best = min(variants, key=lambda one: abs(mean(one) - Fraction(1, 2)))["expanded"]
            kept.append(best)
            assert [seq for seq in written[pick] if decided[seq]["kind"] == "injected"] in (
                [best],
                [],
            )
            for one in variants:
                said = decided[one["expanded"]]
                assert said["epoch"] == one["epoch"]
                if one["expanded"] != best:
                    assert said["kind"] == "refused" and said["rule"] == "probe"
                    assert said["detail"].startswith(f"mean {mean(one)}, and ")
    assert len(kept) > 3 and {decided[seq]["kind"] for seq in kept} >= {"injected"}
    assert len(written) > len(probed), "some picks had no room yet"
    assert not {
        decided[seq]["kind"]
        for pick in written.keys() - probed.keys()
        for seq in written[pick]
        if seq in decided
    }


def test_probed_rollouts_are_no_observations_and_are_charged(run: Run) -> None:
    groups = [one for one in read(run.path / OBSERVATIONS) if one["kind"] == "group"]
    assert len(groups) == STEPS * 8 and {len(one["rollouts"]) for one in groups} == {4}
    refused = {one["task"] for one in read(run.path / POOL) if one["kind"] == "refused"}
    assert refused and not refused & {one["task"] for one in groups}
    assert not refused & {*read_state(run).tracker.tasks}
    played = {
        one["epoch"]: sum(len(variant["rollouts"]) for variant in one["variants"])
        for one in probes(run.path)
    }
    epochs = [one for one in read(run.path / POOL) if one["kind"] == "epoch"]
    assert {one["epoch"]: one["counts"]["played"] for one in epochs} == {
        one["epoch"]: played.get(one["epoch"], 0) for one in epochs
    }
    told = Progress(run.path).poll()
    assert told.standing()["played"] == sum(played.values()) > 10
    assert f"; {sum(played.values())} rollouts before merges, beside those of steps" in "".join(
        told.lines()
    )


def test_verify_agrees_and_finds_another_probe_and_another_variant_that_was_kept(
    run: Run, spoilt: Run
) -> None:
    assert verify(run.path, replay=True).ok
    first = probes(run.path)[0]

    def resolved(record: Record) -> Record:
        for variant in record["variants"] if record["seq"] == first["seq"] else ():
            for played in variant["rollouts"]:
                played["resolved"] = 0
        return record

    rewrite(spoilt.path / PROBES, resolved)
    assert "which the rules do not give" in problems(spoilt)
    shutil.copy(run.path / PROBES, spoilt.path / PROBES)
    assert verify(spoilt.path).ok
    seqs = [
        one["expanded"] for one in first["variants"] if one["pick"] == first["variants"][0]["pick"]
    ]
    decisions = {
        one["expanded"]: one for one in read(run.path / POOL) if one.get("expanded") in seqs
    }
    kept = next(seq for seq, one in decisions.items() if one["kind"] == "injected")
    other = next(seq for seq in decisions if seq != kept)
    swapped = {kept: decisions[other], other: decisions[kept]}

    def another(record: Record) -> Record:
        one = swapped.get(record.get("expanded", 0))
        where = {"expanded": record.get("expanded"), "task": record.get("task")}
        return record if one is None else {**one, **where}

    rewrite(spoilt.path / POOL, another)
    assert "which the rules do not give" in problems(spoilt)


def test_verify_finds_a_probe_of_other_variants_and_one_that_is_missing(
    run: Run, spoilt: Run
) -> None:
    rewrite(spoilt.path / PROBES, lambda record: {**record, "variants": record["variants"][1:]})
    assert "are not those of the merge" in problems(spoilt)
    rewrite(spoilt.path / PROBES, lambda record: None)
    assert "which the rules do not give" in problems(spoilt)


class Killed(Exception):
    pass


@contextmanager
def killed_at(
    name: str, call: int, monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> Iterator[None]:
    """Within, the trainer dies at its so manyth probe: when it is to be written, or right after it
    was."""
    calls = [0]
    append = LogWriter.append

    def dying(self: LogWriter, records: Any) -> None:
        if self.path.name == name:
            calls[0] += 1
            if calls[0] == call and not after:
                raise Killed
        append(self, records)
        if self.path.name == name and calls[0] == call:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(LogWriter, "append", dying)
        yield


@pytest.mark.parametrize(("every", "after"), [(1, True), (1, False), (100, True)])
def test_a_trainer_that_dies_around_a_probe_goes_on_to_the_same_pool(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int, after: bool
) -> None:
    """With a checkpoint at the merge what is on record is not played again; from an earlier one all
    is, alike."""
    again = made(tmp_path / "run", training={"checkpoint_steps": every})
    with Daemon(again.path):
        with killed_at(PROBES, 2, monkeypatch, after=after), pytest.raises(Killed):
            trained(again)
        assert len(probes(again.path)) == (2 if after else 1)
        trained(again)
    told = [
        [one["epoch"], [[v["task"], v["rollouts"]] for v in one["variants"]]]
        for one in probes(again.path)
    ]
    whole = [
        [one["epoch"], [[v["task"], v["rollouts"]] for v in one["variants"]]]
        for one in probes(run.path)
    ]
    assert told == (whole if every == 1 else whole[:2] + whole)
    assert verify(again.path).ok
    assert [*read_state(again).pool.injected] == [*read_state(run).pool.injected]
    state = read_state(again).pool
    assert state.totals["played"] == read_state(run).pool.totals["played"], (
        "what was rolled back is not charged"
    )


def test_in_free_mode_what_comes_late_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    run = made(path, sync="free", training={"steps": 120}, operation={"steps_per_second": 40.0})
    with Daemon(path):
        trained(run)
    assert verify(path).ok
    injected = [one["pick"] for one in read(path / POOL) if one["kind"] == "injected"]
    assert len(injected) == len(set(injected)) > 3


def candidates(picks: list[str]) -> list[Candidate]:
    """A candidate for each name of a pick, with seqs from 1; its content is its seq."""

    class Contents(dict[int, Any]):
        def __missing__(self, seq: int) -> Any:
            return {"task": TASKS[seq]}

    return [Candidate(seq, pick, 1, 0, 0, Contents()) for seq, pick in enumerate(picks, start=1)]  # type: ignore[arg-type]


def played(*rollouts: tuple[int, int, str]) -> list[Record]:
    return [dict(zip(("resolved", "expected", "end"), one, strict=True)) for one in rollouts]


def sifted(
    tmp_path: Path, picks: list[str], budget: int, told: list[list[Record]], epoch: int = 1
) -> Any:
    """What the merge into epoch 2 makes of candidates of `picks`, whose rollouts `told` a merge
    into `epoch` has on record; None: where none is."""
    run = made(tmp_path / "run")
    given = candidates(picks)
    variants = [
        {"pick": one.pick, "expanded": one.seq, "task": TASKS[one.seq].id, "rollouts": rollouts}
        for one, rollouts in zip(given, told, strict=False)
    ]
    probed = record(
        "probed", attempt=1, epoch=epoch, step=3, stage=1, expanded_seq=9, variants=variants
    )
    LogWriter(run.path / PROBES).append([probed] if told else [])
    contest = Probes(run)
    assert contest.begin(2, lambda record: True) == (9 if told and epoch == 2 else None)
    looked, outdone = contest.sifted(given, budget, lambda task: task)
    return contest, [one.seq for one in looked], outdone


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ([played((1, 4, "finished")), played((2, 4, "finished")), played((3, 4, "finished"))], 2),
        # a tie: the first
        ([played((1, 4, "finished")), played((3, 4, "finished")), played((4, 4, "finished"))], 1),
        (
            [
                played((0, 3, "length")),
                played((1, 3, "infrastructure")),
                played((0, 3, "finished")),
            ],
            3,
        ),
        # none is known
        (
            [played((0, 3, "length")), played((2, 3, "context")), played((0, 3, "infrastructure"))],
            1,
        ),
        (
            [
                played((2, 4, "length"), (0, 4, "finished")),
                played((3, 4, "finished")),
                played((4, 4, "finished")),
            ],
            2,
        ),
        (
            [
                played(*[(1, 5, "finished")] * 4, (9, 10, "finished")),
                played((1, 4, "finished")),
                played((3, 5, "finished")),
            ],
            3,
        ),
    ],
)
def test_the_rule_is_exact_and_what_was_cut_or_broken_says_nothing(
    tmp_path: Path, told: list[list[Record]], kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made(tmp_path / "run")
    contest = Probes(run)
    given = candidates(["a"] * 3)
    contest.begin(2, lambda record: True)
    contest._made = [
        {
            "pick": "a",
            "expanded": seq,
            "task": TASKS[seq].id,
            "rollouts": [*rollouts, *rollouts][:ROLLOUTS],
        }
        for seq, rollouts in enumerate(told, start=1)
    ]
    looked, outdone = contest.sifted(given, 1, lambda task: task)
    assert [one.seq for one in looked][-1] == kept and outdone.keys() == {1, 2, 3} - {kept}
    assert {refusal.reason for refusal in outdone.values()} == {"probe"}


def test_as_many_picks_are_probed_as_the_merge_has_room_for(tmp_path: Path) -> None:
    contest, looked, _ = sifted(tmp_path, ["a", "b", "c", "a", "b", "c", "a"], 2, [])
    assert contest.wanted and sorted(looked) == [1, 2, 4, 5, 7], "the third pick waits"
    assert [[pick, many] for pick, _, _, many in contest._due] == [["a", 2]] * 3 + [["b", 2]] * 2


def test_a_single_variant_is_not_played_but_on_record(tmp_path: Path) -> None:
    contest, looked, outdone = sifted(tmp_path, ["a"], 5, [])
    assert contest.wanted and looked == [1] and not outdone
    contest.play({"attempt": 1, "epoch": 2, "stage": 1, "step": 3, "expanded_seq": 1}, pytest.fail)
    (probed,) = probes(tmp_path / "run")
    assert [one["rollouts"] for one in probed["variants"]] == [[]]
    contest.begin(2, lambda record: True)
    contest.sifted(candidates(["a"]), 5, lambda task: task)
    assert not contest.wanted and contest.played == 0


def test_what_comes_after_its_pick_was_decided_about_is_refused(tmp_path: Path) -> None:
    contest, looked, outdone = sifted(tmp_path, ["a", "a", "b"], 1, [[], []], epoch=1)
    assert {seq: told.detail for seq, told in outdone.items()} == dict.fromkeys(
        (1, 2), "its pick was decided about before"
    )
    assert looked == [1, 2, 3] and contest.wanted


def test_what_no_merge_would_admit_is_not_played(tmp_path: Path) -> None:
    run = made(tmp_path / "run")
    contest = Probes(run)
    contest.begin(2, lambda record: True)
    known = Refusal("duplicate", "known")
    looked, outdone = contest.sifted(
        candidates(["a", "a"]), 1, lambda task: known if task == TASKS[1] else task
    )
    assert (
        [one.seq for one in looked] == [1, 2]
        and not outdone
        and [many for *_, many in contest._due] == [0]
    )


def test_a_record_of_other_variants_is_damage(tmp_path: Path) -> None:
    with pytest.raises(Damage, match="are not those of the merge"):
        sifted(tmp_path, ["a", "a"], 1, [played((1, 2, "finished"), (1, 2, "finished"))], epoch=2)


@pytest.mark.parametrize(
    "changes", [{"pipeline": {"variants_per_seed": 1}}, {"pool": {"static": True}}]
)
def test_what_cannot_be_probed_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"probe\.enabled needs pipeline"):
        parse_config(values(**changes), where="test")


def test_trainers_that_hand_over_no_policy_are_refused_and_functions_are_not(
    tmp_path: Path,
) -> None:
    run = made(tmp_path / "run")
    with pytest.raises(RefusedError, match="variants are played before a merge"):
        merge(run.path, epoch=0)
    with Daemon(run.path), open_training(run.path, lambda need: "I cannot do that.") as training:
        for batch in training:
            training.record(batch, training.play(batch))
            if batch.step == 2:
                slots = [slot.task for slot in batch.slots[:2]]
                told = training.run._rehearse({"epoch": 1, "stage": 1}, slots, 3, 0)
                assert [len(rollouts) for rollouts in told] == [3, 3]
                break


def test_without_it_nothing_of_it_is_on_record(tmp_path: Path) -> None:
    run = made(tmp_path / "run", probe={"enabled": False}, training={"steps": 6})
    with Daemon(run.path):
        trained(run)
    assert not (run.path / PROBES).exists()
    assert [one for one in read(run.path / POOL) if one["kind"] == "injected"]
    assert all(
        "played" not in one["counts"] for one in read(run.path / POOL) if one["kind"] == "epoch"
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.numeric
def test_weights_play_variants_through_their_own_engine(tmp_path: Path) -> None:
    """Nano through TRL, as a process. Where no rollout is valid the first variant of a pick comes
    in."""
    changes = {"sync": "lockstep", **COMMON, **POLICIES["nano"], **ANY_SEED, "training.steps": 6}
    changes |= {
        "probe.enabled": True,
        "pipeline.variants_per_seed": VARIANTS,
        "rollouts.max_reply_tokens": 48,
    }
    config = write_config(tmp_path / "run.toml", changes)
    path = tmp_path / "run"
    create_run(path, read_config(config), load_tasks(read_config(config).data, tmp_path))
    with Daemon(path):
        done = train(path, config)
    assert done.returncode == 0, done.stderr
    assert verify(path).ok
    told = [one for probed in probes(path) for one in probed["variants"] if one["rollouts"]]
    assert told and all(len(one["rollouts"]) == ROLLOUTS for one in told)
    assert {played["end"] for one in told for played in one["rollouts"]} <= {*ENDS}
    assert [one for one in read(path / POOL) if one.get("rule") == "probe"]
