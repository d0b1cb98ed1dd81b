"""The guides as a site: every link leads somewhere, and the messages that troubleshooting explains
are ours."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from rods.environments.base import Tool

ROOT = Path(__file__).parent.parent
ROOMS = ("rods", "worlds", "buffers", "daemon", "trainer", "evaluation", "console")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it: a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-c",
        "docs",
        ".",
        str(folder),
    ]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder


class Places(HTMLParser):
    """The ids of an HTML page, and what it points to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.ids |= {given["id"] or ""} if "id" in given else set()
        self.links += [given[name] or "" for name in ("href", "src") if name in given]


@pytest.mark.slow
def test_a_link_of_the_built_site_leads_to_a_file_and_a_place_in_it(site: Path) -> None:
    pages = {page: Places(page) for page in site.rglob("*.html")}
    assert {page.stem for page in pages} >= {page.stem for page in (ROOT / "docs").glob("*.md")}
    broken = []
    outside = set()
    for page, found in pages.items():
        for link in found.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                outside |= {link} if parts.scheme != "data" else set()
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not target.exists() or (
                parts.fragment and unquote(parts.fragment) not in pages[target].ids
            ):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert not broken
    assert outside and not [
        link for link in outside if not re.fullmatch(r"https://[\w.-]+\.\w+(/\S*)?", link)
    ]


@pytest.mark.slow
def test_the_site_opens_from_disk_and_has_the_modules(site: Path) -> None:
    assert 'href="troubleshooting.html"' in (site / "docs/index.html").read_text()
    (first, *_) = (Tool.__doc__ or "").splitlines()
    assert first.strip() in (site / "docs/python.html").read_text()
    assert all(
        f'id="{verb}"' in (site / "docs/commands.html").read_text()
        for verb in ("rods-data-check", "rods-train")
    )


@pytest.mark.slow
def test_troubleshooting_explains_messages_that_exist() -> None:
    page = (ROOT / "docs/troubleshooting.md").read_text()
    seen = [
        row.split("|")[1]
        for row in page.splitlines()
        if row.startswith("| ") and not row.startswith("| you see")
    ]
    quoted = [text for cell in seen for text in re.findall(r"`([^`]+)`", cell)]
    assert len(quoted) > 35
    written = "\n".join(_texts())
    missing = [
        piece
        for text in quoted
        for piece in re.split(r" ?… ?", text)
        if piece and piece not in written
    ]
    assert not missing


def _texts() -> list[str]:
    """The texts in the product's code."""
    files = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    nodes = [
        node for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    ]
    return [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
