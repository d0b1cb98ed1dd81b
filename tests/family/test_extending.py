"""The counter of docs/extending.md, in a folder of its own in a copy of the tree: it is found,
kept, shown and derived."""

import re
import shutil
import subprocess
from pathlib import Path

import orjson
import pytest

from rods.buffers.log.record_bytes import line
from rods.buffers.log.tail import read
from rods.buffers.run.runfolder import OBSERVATIONS
from tests.parts import ROOT
from tests.test_removal import live, run

CODE = re.search(
    r"```python\n(.*?)```", (ROOT / "docs" / "extending.md").read_text(encoding="utf-8"), re.DOTALL
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    place = tmp_path / "tree"
    for name in subprocess.check_output(["git", "ls-files"], text=True, cwd=ROOT).splitlines():
        if (ROOT / name).exists():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name, follow_symlinks=False)
    (place / "family" / "solved").mkdir()
    (place / "family" / "solved" / "__init__.py").write_text("")
    assert CODE is not None
    (place / "family" / "solved" / "extension.py").write_text(CODE[1])
    return place


@pytest.mark.slow
def test_an_extension_takes_one_folder_and_no_line_elsewhere(tree: Path, tmp_path: Path) -> None:
    live(tmp_path, tree)  # `rods up`, `rods verify --replay`, `rods status`
    log = tmp_path / "run" / OBSERVATIONS
    solved = [record["solved"] for record in read(log) if record["kind"] == "step"]
    assert len(solved) == 6 and solved == sorted(solved) and solved[-1] > 0
    told = run(tmp_path, tree, "-m", "rods.console", "status", "run", "--json")
    assert f"{solved[-1]} rollouts have solved their task" in orjson.loads(told.stdout)["notes"]

    changed = []
    for record in read(log):
        bare = {key: value for key, value in record.items() if key not in ("seq", "crc")}
        wrong = {"solved": 99} if bare.get("step") == 3 and "solved" in bare else {}
        changed.append(line(record["seq"], bare | wrong))
    log.write_bytes(b"".join(changed))
    done = run(tmp_path, tree, "-m", "rods.console", "verify", "run")
    assert done.returncode == 1 and "says solved 99" in done.stdout, done.stdout + done.stderr
