"""Makes the demo's warm-started weights anew, which come with the package, after a change of their
recipe (two minutes): `python -m docs.generate.nano_weights`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import rods.console
from rods.config import read_config
from rods.errors import say
from rods.trainer.nano.warm_start import SHIPPED, WARM_UP, make, recipe
from rods.trainer.torch_settings import settle_threads

DEMO = Path(rods.console.__file__).parent / "demo.toml"
# beside the weights: what the first updates learnt, by which the recipe is known again
LOSSES = "losses.json"


def main() -> None:
    config = read_config(DEMO)
    losses = list[float]()
    settle_threads(config.operation)
    shutil.rmtree(SHIPPED, ignore_errors=True)

    def noted(step: int, steps: int, loss: float) -> None:
        losses.append(loss)
        if step % 100 == 0:
            say(f"{step}/{steps}", aside=True)

    folder = make(config, SHIPPED / recipe(config), noted)
    (folder / LOSSES).write_text(json.dumps(losses[: 2 * WARM_UP]) + "\n")
    say(str(folder))


if __name__ == "__main__":
    main()
