"""A full disk and a read-only run folder, whoever meets them: one line with place, reason and
remedy.

On file systems of their own, in a mount namespace, because root may write wherever permissions say
no.
"""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.console.conftest import CONFIG

VERBS: dict[str, str] = {
    "rods-train": "trainer RUN",
    "rods-daemon": "daemon RUN",
    "rods up": "console up RUN",
    "rods dash --export": "console dash RUN --export RUN/report",
    "rods trainer score": "console trainer score RUN",
    "rods trainer merge": "console trainer merge RUN --epoch 0",
    "rods trainer observe": "console trainer observe RUN",
    "rods trainer fork": "console trainer fork RUN RUN/next",
    "rods data export": "console data export RUN RUN/out",
    "rods data bfcl": "console data bfcl --out RUN/tasks",
}


def command(verb: str, run: Path) -> str:
    return (
        f"{shlex.quote(sys.executable)} -m rods.{VERBS[verb].replace('RUN', str(run))} </dev/null"
    )


def in_namespace(script: str, timeout: float = 180) -> subprocess.CompletedProcess[str]:
    """Runs a shell script that may mount; its exit code 77 means that it may not."""
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, timeout=timeout
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no mount namespaces here")
    assert "Traceback" not in done.stderr + done.stdout, done.stderr
    return done


@pytest.mark.few("rods-train", "rods up", "rods-daemon")
@pytest.mark.parametrize(
    "verb",
    [
        verb if verb == "rods-train" else pytest.param(verb, marks=pytest.mark.slow)
        for verb in VERBS
    ],
)
def test_a_read_only_run_folder_is_one_line_with_its_remedy(run_copy: Path, verb: str) -> None:
    if verb == "rods data bfcl" and not _has_bfcl():
        pytest.skip("no BFCL data here")
    mount = f"mount --bind {run_copy} {run_copy} && mount -o remount,bind,ro {run_copy} || exit 77"
    done = in_namespace(f"{mount}; {command(verb, run_copy)}")
    assert done.returncode == 2, done.stderr
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith(f"{verb.split()[0]}: {run_copy}/") and "Read-only" in line
    assert "→ make the run folder writable" in line


@pytest.mark.parametrize("verb", ["rods status", "rods inspect", "rods verify"])
def test_a_read_only_run_can_be_looked_at(run_copy: Path, verb: str) -> None:
    task = (run_copy / "tasks.jsonl").read_text()[7:27]
    look = (
        f"{sys.executable} -m rods.console {verb.split()[1]} {run_copy} "
        f"{task if verb == 'rods inspect' else ''}"
    )
    mount = f"mount --bind {run_copy} {run_copy} && mount -o remount,bind,ro {run_copy} || exit 77"
    assert in_namespace(f"{mount}; {look}").returncode == 0


@pytest.mark.parametrize("verb", ["rods dash --export", "rods trainer score", "rods data export"])
def test_a_full_disk_is_one_line_with_its_remedy(run_copy: Path, tmp_path: Path, verb: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    script = f"""
        mount -t tmpfs -o size=2m none {disk} || exit 77
        cp -r {run_copy} {disk}/run
        rm -rf {disk}/run/report {disk}/run/eval
        cat /dev/zero > {disk}/rest 2>/dev/null
        {command(verb, disk / "run")}
    """
    done = in_namespace(script)
    assert done.returncode == 2, done.stderr
    line = done.stderr.strip().splitlines()[-1]
    assert str(disk / "run") in line and "the disk is full → free some space" in line


@pytest.mark.sweep
def test_up_says_that_the_disk_is_full_and_goes_on_once_there_is_room(tmp_path: Path) -> None:
    """Not even what the two processes print can be kept on that disk."""
    disk = tmp_path / "disk"
    config = tmp_path / "run.toml"
    disk.mkdir()
    config.write_text(CONFIG.replace("steps = 14", "steps = 60"))
    up = f"{sys.executable} -m rods.console up {disk}/run --config {config}"
    script = f"""
        mount -t tmpfs -o size=300k none {disk} || exit 77
        {up}; echo "code $?"
        mount -o remount,size=64m {disk}
        {up}; echo "code $?"
        {sys.executable} -m rods.console verify {disk}/run; echo "code $?"
    """
    done = in_namespace(script)
    codes = [line for line in done.stdout.splitlines() if line.startswith("code ")]
    assert codes == ["code 2", "code 0", "code 0"], done.stdout + done.stderr
    told = done.stdout[: done.stdout.index("\ncode 2")]
    assert f"{disk}/run" in told and "the disk is full → free some space" in told


def _has_bfcl() -> bool:
    from rods.errors import UserError
    from rods.worlds.bfcl import wheel

    try:
        return bool(wheel.path())
    except UserError:
        return False
