"""Carries out docs/tutorial.md in an empty folder: `python -m tests.tutorial BIN`, with the `rods`
that lies in BIN."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAGE = Path(__file__).absolute().parent.parent / "docs" / "tutorial.md"


def blocks(kind: str, page: Path = PAGE) -> list[str]:
    """A page's code blocks of one kind, in order."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def carry_out(commands: Path, folder: Path, page: Path = PAGE) -> Path:
    """Runs every command of the page, those of `commands` first on the path, one after the other as
    a reader would; one that ends in "&" runs until the page ends. Raises CalledProcessError for the
    first that fails. Returns the folder in which the page ends."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PATH"] = f"{commands}:{environment['PATH']}"
    with contextlib.ExitStack() as ended:
        for line in "".join(blocks("sh", page)).splitlines():
            if line.startswith("cd "):
                folder = folder / line.removeprefix("cd ")
                continue
            print(f"$ {line}", flush=True)
            if line.endswith(" &"):
                words = line.removesuffix(" &").split()
                process = ended.enter_context(
                    subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.PIPE)
                )
                ended.callback(process.terminate)
                assert process.stdout is not None
                print(process.stdout.readline().decode(), end="")  # it is up when it says something
            else:
                subprocess.run(line.split(), cwd=folder, env=environment, check=True, timeout=600)
    return folder


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as empty:
        began = time.monotonic()
        carry_out(Path(sys.argv[1]).absolute(), Path(empty))
        print(f"docs/tutorial.md was carried out in {time.monotonic() - began:.0f} s")
