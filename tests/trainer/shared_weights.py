"""One of several processes that load a model in `sys.argv[1]` by `load_shared` (or, with `alone`
behind it, each for itself), and what it holds of it: bytes that are its own (anonymous), and its
share of all that it has in memory (PSS), without those of the program."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

from rods.trainer.chat import Chat
from rods.trainer.ranks import Ranks
from rods.trainer.sharding import Shards
from rods.trainer.trl_start import load_shared


def held() -> dict[str, int]:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    sizes = {line.split(":")[0]: 1024 * int(line.split()[1]) for line in lines}
    return {"own": sizes["Anonymous"], "share": sizes["Pss"]}


def main(folder: str, how: str) -> None:
    ranks = Ranks()
    chat = Chat.load(Path(folder))
    ranks.gathered([""])
    before = held()
    model: Any = chat.load_model() if how == "alone" else load_shared(chat, ranks)
    twin = (
        copy.deepcopy(model)
        if how == "alone"
        else Shards("fsdp", model, list, list, ranks.first).trained  # type: ignore[arg-type]
    )
    total = sum(float(weight.sum()) for weight in twin.parameters())  # reads all of them
    ranks.gathered([""])
    after = held()
    found = {name: after[name] - before[name] for name in before} | {"total": total}
    everyone = ranks.gathered([found])
    if ranks.first:
        print("held " + json.dumps(everyone), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:3])
