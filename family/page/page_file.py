"""The page as a file that opens from the disk, with the report first: the same modules, and the
answers that a server would give, inside."""

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from rods.canonical import JsonObject
from rods.errors import RodsError
from rods.family.page.server import MODULES, Registry, hashed, import_map, script_json, static

STOPS = 60  # steps of the boundary's slider; boundary.js counts alike
TASKS = 50  # of a run, the latest variants first
START = 'import "main";'
SAFE = "!*'()~"  # in an address, as encodeURIComponent has it


def export_page(registry: Registry, folder: Path) -> tuple[Path, dict[str, JsonObject]]:
    """Writes `folder`/index.html, which holds every run of `registry`; returns its path, and what
    the view `report` says of each run, by name. An earlier page is replaced. Raises UserError for a
    run that cannot be read."""
    answers = {"/api/runs": registry.listing()}
    names = registry.names()
    for name in names:
        answers |= _answers(registry, name)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "index.html"
    target.write_text(_page(answers), encoding="utf-8")
    return target, {name: answers[_address(name, "report")] for name in names}


def _address(name: str, view: str, query: Mapping[str, str] | None = None) -> str:
    """Under which the page asks for a view of a run."""
    return f"/api/{quote(name, safe=SAFE)}/{view}" + (f"?{urlencode(query)}" if query else "")


def _answers(registry: Registry, name: str) -> Iterator[tuple[str, Any]]:
    """The answers about a run, by the address under which the page asks for them."""

    def asked(view: str, **query: object) -> tuple[str, Any]:
        texts = {key: str(value) for key, value in query.items()}
        return _address(name, view, texts), registry.answer(name, view, texts)

    with registry.follower(name).whole():
        pass
    for view in ("status", "positions", "steps", "funnel", "models", "compare", "logs"):
        yield asked(view)
    yield (report := asked("report"))
    yield (latest := asked("boundary"))
    stride = -(-latest[1]["last"] // STOPS) or 1
    for step in range(1, latest[1]["last"], stride):
        yield asked("boundary", step=step)
    yield (listed := asked("pool"))
    for state in listed[1]["counts"]:
        yield asked("pool", state=state)
    tasks = dict.fromkeys(report[1]["examples"])
    for variant in listed[1]["variants"]:
        tasks |= dict.fromkeys((variant["task"], variant["seed"]))
    for task in [*tasks, *(dot[0] for dot in latest[1]["dots"] if dot[0] not in tasks)][:TASKS]:
        try:
            yield asked("task", task=task)
        except RodsError:
            continue  # a variant that reads as no task
        yield (kept := asked("episodes", task=task))
        if kept[1]["steps"]:
            step = kept[1]["step"]
            yield f"{kept[0]}&step={step}", kept[1]


def _page(answers: JsonObject) -> str:
    """The page with everything inside. Scripts run by their hashes, modules from data: addresses
    alone."""
    encoded = {name: base64.b64encode(static(f"{name}.js").encode()).decode() for name in MODULES}
    modules = {name: f"data:text/javascript;base64,{text}" for name, text in encoded.items()}
    inline = {"map": import_map(modules), "chart": static("uPlot.min.js"), "start": START}
    hashes = " ".join(map(hashed, inline.values()))
    policy = (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src data: {hashes}"
    )
    held = script_json(answers)
    page = static("index.html")
    head = '<meta charset="utf-8">'
    start = (
        f'<script type="application/json" id="answers">{held}</script>\n<script '
        f'type="module">{START}</script>'
    )
    for living, inside in {
        head: f'{head}\n<meta http-equiv="content-security-policy" content="{policy}">',
        '<link rel="stylesheet" '
        'href="/static/uPlot.min.css">': f"<style>{static('uPlot.min.css')}</style>",
        '<link rel="stylesheet" href="/static/style.css">': f"<style>{static('style.css')}</style>",
        '<script src="/static/uPlot.min.js"></script>': f"<script>{inline['chart']}</script>",
        '<script type="module" src="/static/main.js"></script>': start,
        "{{map}}": inline["map"],
    }.items():
        assert page.count(living) == 1, living
        page = page.replace(living, inside)
    return page
