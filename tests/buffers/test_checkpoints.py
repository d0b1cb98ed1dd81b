import os
from pathlib import Path

import pytest

from rods.buffers.checkpoints import MANIFEST, Checkpoints, Position
from rods.errors import UserError


def everything(attempt: int, step: int) -> bool:
    return True


def at(step: int, attempt: int = 1) -> Position:
    return Position(
        attempt, step, epoch=0, cursor=step, order_hash="h", pool_seq=1, random={"order": 0}
    )


def saving(text: str):
    def save(folder: Path) -> None:
        (folder / "deep").mkdir()
        (folder / "deep" / "weights").write_text(text)
        (folder / "state.json").write_text("{}")

    return save


def test_a_checkpoint_gives_back_position_and_files(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.write(at(7), saving("seven"))
    found = checkpoints.newest(everything)
    assert found is not None
    assert found.position == at(7)
    assert (found.policy / "deep" / "weights").read_text() == "seven"


def test_the_newest_live_checkpoint_wins_and_dead_ones_are_passed_over(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (0, 5, 9):
        checkpoints.write(at(step), saving(str(step)))

    def live(attempt: int, step: int) -> bool:
        return step <= 5  # a later start went back to 5

    found = checkpoints.newest(live)
    assert found is not None and found.position.step == 5


def test_a_kill_before_the_rename_leaves_nothing_that_counts(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.write(at(5), saving("five"))

    def killed(folder: Path) -> None:
        (folder / "half").write_text("written")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checkpoints.write(at(9), killed)
    resumed = checkpoints.newest(everything)
    assert resumed is not None and resumed.position.step == 5
    moved = checkpoints.set_aside(everything, resumed)
    assert [folder.name for folder in moved] == ["step_00000009.a1.part"]
    assert (moved[0] / "policy" / "half").read_text() == "written"
    checkpoints.write(at(9), saving("nine"))
    again = checkpoints.newest(everything)
    assert again is not None and again.position.step == 9


@pytest.mark.parametrize("damage", ["change", "no manifest", "killed while it was copied"])
def test_a_fork_never_begins_without_the_policy_that_it_took_along(
    tmp_path: Path, damage: str
) -> None:
    checkpoints = Checkpoints(tmp_path / "child")
    for name in ("parent", "child"):
        (tmp_path / name).mkdir()
    taken = checkpoints.adopt(Checkpoints(tmp_path / "parent").write(at(5), saving("five")))
    if damage == "change":
        (taken.policy / "deep" / "weights").write_text("nina")
    elif damage == "no manifest":
        (taken.folder / MANIFEST).unlink()
    else:
        taken.folder.rename(taken.folder.with_name(taken.folder.name + ".part"))
    assert checkpoints.newest(everything) is None
    with pytest.raises(UserError, match="make the fork again"):
        checkpoints.set_aside(everything, None)
    later = checkpoints.write(at(3), saving("three"))
    # it is not needed any more
    assert len(checkpoints.set_aside(everything, later)) == (damage != "change")


@pytest.mark.parametrize("damage", ["change", "remove", "no manifest", "torn manifest"])
def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_is_resumed(
    tmp_path: Path, damage: str
) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.write(at(5), saving("five"))
    nine = checkpoints.write(at(9), saving("nine"))
    if damage == "change":
        (nine.policy / "deep" / "weights").write_text("nina")
    elif damage == "remove":
        (nine.policy / "state.json").unlink()
    elif damage == "no manifest":
        (nine.folder / MANIFEST).unlink()
    else:
        text = (nine.folder / MANIFEST).read_bytes()
        (nine.folder / MANIFEST).write_bytes(text[: len(text) // 2])
    resumed = checkpoints.newest(everything)
    assert resumed is not None and resumed.position.step == 5
    moved = checkpoints.set_aside(everything, resumed)
    assert [folder.parent.name for folder in moved] == ["incomplete"]
    assert (moved[0] / "policy").is_dir()
    assert checkpoints.set_aside(everything, resumed) == []


def test_step_0_and_the_newest_few_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (0, 1, 2, 3, 4, 5):
        checkpoints.write(at(step), saving(str(step)))
    checkpoints.write(at(6, attempt=9), saving("of a dead attempt"))
    checkpoints.prune(lambda attempt, step: attempt == 1, keep=2)
    assert [item.position.step for item in checkpoints.named(everything)] == [0, 4, 5]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder_is_a_message(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="cannot write a checkpoint"):
        Checkpoints(tmp_path).write(at(1), saving("one"))
