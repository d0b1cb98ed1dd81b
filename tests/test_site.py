"""The guides as a site: every link leads somewhere, and the messages that troubleshooting explains are ours."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = ("rods", "worlds", "buffers", "daemon", "trainer", "evaluation", "console")


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs", ".", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert 'href="troubleshooting.html"' in (tmp_path / "docs/index.html").read_text()  # opens from disk
    assert "A typed function that the policy may call" in (tmp_path / "docs/python.html").read_text()


def test_troubleshooting_explains_messages_that_exist() -> None:
    page = (ROOT / "docs/troubleshooting.md").read_text()
    seen = [row.split("|")[1] for row in page.splitlines() if row.startswith("| ") and not row.startswith("| you see")]
    quoted = [text for cell in seen for text in re.findall(r"`([^`]+)`", cell)]
    assert len(quoted) > 35
    written = "\n".join(_texts())
    missing = [piece for text in quoted for piece in re.split(r" ?… ?", text) if piece and piece not in written]
    assert not missing


def _texts() -> list[str]:
    """The texts in the product's code."""
    files = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
