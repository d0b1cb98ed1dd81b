"""The gate for folders of Harbor's tasks that others wrote, by Harbor's own agents.

Claim: every planted fault is named by its kind, and no sound task is refused. Anchor: the faults
that were planted. Command: `python -m bench.harbor_admit --harbor VENV/bin/harbor [--folder
FOLDER]`; `--folder`: tasks of others, which are judged beside. Environments are
`bench.fixtures.harbor_local`, which needs the rights to make a mount namespace. Without `--harbor`
there is nothing to measure."""

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.figures import Figure, run
from bench.harbor_tasks import LOCAL
from rods.console.main import run as rods

TABLE = """schema_version = "1.4"
[task]
name = "bench/{name}"
[agent]
timeout_sec = {seconds}
[verifier]
timeout_sec = {seconds}
"""
CHECK = """#!/bin/bash
[ "$(cat /app/out.txt)" = "$({right})" ] && reward=1
echo ${{reward:-0}} > /logs/verifier/reward.txt
"""
# what is asked, and the command that does it
ASKED = (
    ("Write the whole numbers from one to twenty into /app/out.txt, one on each line.", "seq 20"),
    (
        "Put the even numbers below thirty, smallest first, into the file /app/out.txt.",
        "seq 2 2 28",
    ),
    (
        "How many lines does /etc/passwd have? Leave the count in /app/out.txt.",
        "wc -l </etc/passwd",
    ),
    ("Copy the name that this machine's kernel gives itself to /app/out.txt.", "uname -s"),
    ("Save the letters a to f, separated by blanks, as /app/out.txt.", "echo a b c d e f"),
    ("The product of 127 and 311 belongs in /app/out.txt, nothing else.", "echo $((127 * 311))"),
    ("List what lies in /etc/ssl, by name, and keep that in /app/out.txt.", "ls /etc/ssl"),
    ("Reverse the word laboratory and store the result under /app/out.txt.", "echo yrotarobal"),
)
WRITES = "echo {} > /logs/verifier/reward.txt\n"


def sound(folder: Path, says: str, right: str) -> None:
    """A task whose solution earns 1, and nothing 0."""
    for part in ("environment", "tests", "solution"):
        (folder / part).mkdir(parents=True)
    (folder / "task.toml").write_text(TABLE.format(name=folder.name, seconds=20))
    (folder / "instruction.md").write_text(says + "\n")
    (folder / "environment" / "Dockerfile").write_text("FROM ubuntu:24.04\n")
    _script(folder, "tests/test.sh", CHECK.format(right=right))
    _script(folder, "solution/solve.sh", f"#!/bin/bash\n{right} > /app/out.txt\n")


def _script(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def _slow(folder: Path, name: str) -> None:
    (folder / "task.toml").write_text(TABLE.format(name=folder.name, seconds=2))
    _script(folder, name, "#!/bin/bash\nsleep 5\n")


# the kind, and what makes a sound task one of it
FAULTS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "the solution writes something else": (
        "replay",
        lambda folder: _script(folder, "solution/solve.sh", "echo x > /app/out.txt\n"),
    ),
    "the solution fails": (
        "replay",
        lambda folder: _script(folder, "solution/solve.sh", "#!/bin/bash\nexit 1\n"),
    ),
    "whatever was done is rewarded": (
        "idle",
        lambda folder: _script(folder, "tests/test.sh", WRITES.format(1)),
    ),
    "the reward is drawn by chance": (
        "unrepeatable",
        lambda folder: _script(folder, "tests/test.sh", WRITES.format("0.$RANDOM")),
    ),
    "there is no solution": ("witness", lambda folder: shutil.rmtree(folder / "solution")),
    "task.toml is cut": (
        "record",
        lambda folder: (folder / "task.toml").write_text('schema_version = "1'),
    ),
    "there is no instruction": ("record", lambda folder: (folder / "instruction.md").unlink()),
    "nothing writes a reward": (
        "lost",
        lambda folder: _script(folder, "tests/test.sh", "#!/bin/bash\ntrue\n"),
    ),
    "the solution outlasts its time": ("lost", lambda folder: _slow(folder, "solution/solve.sh")),
    "the test outlasts its time": ("lost", lambda folder: _slow(folder, "tests/test.sh")),
    "the world cannot be made": (
        "lost",
        lambda folder: (folder / "environment" / "Dockerfile").unlink(),
    ),
}
VERDICT = {"witness": "doubtful", "lost": "undecided"}


def measure(quick: bool, harbor: str = "", folder: str = "") -> list[Figure]:
    """The share of tasks of each kind that the gate names so."""
    if not harbor:
        return []
    asked = ASKED[:2] if quick else ASKED
    figures = []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        os.environ |= {
            "WORLD_PATH": name,
            "HARBOR_LOCAL": str(place / "trials"),
            "PYTHONPATH": str(LOCAL.parent),
            "LITELLM_LOCAL_MODEL_COST_MAP": "true",
        }
        for number, (says, right) in enumerate(asked):
            sound(place / "sound" / f"t{number}", says, right)
            sound(place / "copies" / f"t{number}", says, right)
            sound(place / "copies" / f"u{number}", says, right)
        kinds = {"sound": "", "copies": "duplicates"}
        for number, (kind, plant) in enumerate(FAULTS.values()):
            kinds[f"fault-{number}"] = kind
            for task in (place / "sound").iterdir():
                shutil.copytree(task, place / f"fault-{number}" / task.name)
                plant(place / f"fault-{number}" / task.name)
        told = dict(zip([*kinds][2:], FAULTS, strict=True))
        for part, kind in kinds.items():
            lines = judged(place / part, harbor, place / "verdicts.jsonl")
            wanted = VERDICT.get(kind, "refused" if kind else "accepted")
            if part == "copies":  # the second of each
                lines = lines[len(asked) :]
            right_ones = sum(
                line["verdict"] == wanted and kind in (*line["kinds"], "") for line in lines
            )
            claim = f"{told.get(part, part)}: {wanted}, {kind}, of {len(lines)}"
            figures.append(Figure(claim, right_ones / len(lines), "", reach=1.0))
        if folder:
            lines = judged(Path(folder), harbor, place / "verdicts.jsonl")
            for what, count in Counter(line["what"] for line in lines).items():
                figures.append(Figure(f"{folder}: {what}", count, "tasks"))
    return figures


def judged(folder: Path, harbor: str, out: Path) -> list[dict[str, Any]]:
    """The verdicts on a folder."""
    words = ["admit", "harbor", str(folder), "--harbor", harbor, "--out", str(out)]
    rods([*words, "--", "-n", "4", "-e", f"{LOCAL.stem}:Local"])
    return [json.loads(line) for line in out.read_text().splitlines()]


if __name__ == "__main__":
    run(
        measure,
        harbor="the program of an installation of Harbor",
        folder="tasks of others, which are judged beside",
    )
