"""Takes pictures of every view of the recorded run, so that a change of the page can be looked at.

`python -m docs.generate.pictures` writes `<view>.png`, `<view>-phone.png` and `<view>-dark.png`
into docs/pictures; with a folder named, there, and whole pages instead of what fits on a screen.
The run's view is `page`.
"""

from __future__ import annotations

import asyncio
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from rods.family.page.dash import unpacked
from rods.family.page.server import Registry
from tests.console.dash.browser import Page, browser
from tests.console.dash.conftest import served

DOCUMENTED = Path(__file__).resolve().parents[1] / "pictures"
COLOURS = 256  # of a picture, to keep it small; with fewer, those of rare zones turn into others
SETTLED = 1.0  # seconds after which nothing moves on a page that nobody writes


@dataclass(frozen=True)
class Screen:
    """`ending` of the picture's name; size in pixels."""

    ending: str
    width: int
    height: int
    dark: bool = False


SCREENS = (Screen("", 1280, 900), Screen("-phone", 390, 844), Screen("-dark", 1280, 900, dark=True))


def addresses(run: Path) -> dict[str, str]:
    """What stands behind the `#` for each view of `run`: of the latest variant with episodes where
    a view is of a task."""
    registry = Registry([run])
    variants = [one["task"] for one in registry.answer("latest", "pool", {})["variants"]]
    variant = next(
        one for one in variants if registry.answer("latest", "episodes", {"task": one})["steps"]
    )
    views = {
        view: view for view in ("boundary", "pool", "funnel", "models", "compare", "logs", "report")
    }
    views |= {"page": "run", "task": f"task/{variant}"}
    return {view: f"/{run.name}/{rest}" for view, rest in views.items()}


async def take(page: Page, address: str, screen: Screen, *, whole: bool) -> bytes:
    """A picture of what stands at `address`; `whole`: also of what does not fit on the screen."""
    await page.screen(screen.width, screen.height, dark=screen.dark)
    await page.open("about:blank")
    await page.open(address)
    await page.until(
        "document.querySelector('#view :is(table, circle, canvas, .bar, .turn, p.note)') !== null"
    )
    await asyncio.sleep(SETTLED)
    return await page.picture(whole=whole)


async def main(folder: Path | None) -> None:
    target = folder or DOCUMENTED
    target.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as unpacking:
        run = unpacked(Path(unpacking))
        with served(run) as address:
            async with browser() as page:
                for view, rest in addresses(run).items():
                    for screen in SCREENS:
                        made = await take(
                            page, address.opened(rest), screen, whole=folder is not None
                        )
                        small = Image.open(io.BytesIO(made)).convert("RGB").quantize(COLOURS)
                        small.save(target / f"{view}{screen.ending}.png", optimize=True)
                assert page.complaints == []


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
