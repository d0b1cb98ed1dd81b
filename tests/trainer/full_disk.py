"""Takes a checkpoint on a disk that is too small for it, with each library that writes policies,
and prints what that ends with: `python -m tests.trainer.full_disk FOLDER`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rods.buffers.checkpoints import Checkpoints
from rods.errors import UserError
from tests.buffers.test_checkpoints import at, saving

SIZE = 1 << 20  # of the disk


def _torch(folder: Path) -> None:
    import torch

    torch.save({"a": torch.zeros(SIZE)}, folder / "weights.pt")


def _safetensors(folder: Path) -> None:
    import torch
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(SIZE)}, folder / "weights.safetensors")


def _tokenizers(folder: Path) -> None:
    tokenizers: Any = __import__("tokenizers")
    words = {f"word{number}": number for number in range(100_000)}
    tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "word0")).save(
        str(folder / "tokenizer.json")
    )


def _copied(folder: Path) -> None:
    (folder / "weights").write_bytes(bytes(2 * SIZE))


WRITERS: dict[str, Callable[[Path], None]] = {
    "torch": _torch,
    "safetensors": _safetensors,
    "tokenizers": _tokenizers,
    "copied": _copied,
}


def main(disk: Path) -> None:
    checkpoints = Checkpoints(disk)
    checkpoints.write(at(0), saving("x" * (SIZE // 4)))
    for step, (name, save) in enumerate(WRITERS.items(), start=1):
        try:
            checkpoints.write(at(step), save)
        except UserError as error:
            print(f"{name}: {error}")
        left = sum(path.stat().st_size for path in checkpoints.folder.rglob("*") if path.is_file())
        assert left < SIZE // 2, "half of a checkpoint still takes the room"
        shutil.rmtree(checkpoints.folder / f"step_{step:08d}.a1.part")
    (disk / "rest").write_bytes(bytes(SIZE // 2 + SIZE // 8))
    asked: list[Path] = []
    try:
        checkpoints.write(at(9), asked.append)
    except UserError as error:
        print(f"no room to begin: {error}")
    assert not asked, "room is asked for first"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
