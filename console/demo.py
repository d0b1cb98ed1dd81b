"""`make demo`: trains nano on desk with the daemon beside it in runs/demo, scores it and writes a
report.

An interrupted demo is continued; a finished one is moved aside and a new one started. The
warm-started weights come with the package (trainer/nano/weights).
"""

import time
from importlib.resources import as_file, files
from pathlib import Path

from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import exists
from rods.config import read_config
from rods.console import api
from rods.console.dash.page_file import export_page
from rods.console.dash.server import Registry
from rods.console.output import print_lines
from rods.console.progress import Progress
from rods.console.verbs.up import up
from rods.errors import EXIT_OK, RefusedError, RodsError, say

RUN = Path("runs/demo")


def main() -> int:
    """Returns the exit code: 0 with a report, 5 when it was interrupted, else that of the error."""
    started = time.monotonic()
    try:
        with as_file(files("rods.console").joinpath("demo.toml")) as config:
            move_aside(config)
            say(
                f"Training nano in {RUN}, with the daemon beside it. Ctrl-C stops; `make demo` "
                f"goes on."
            )
            code = up(RUN, config=config)
        if code != EXIT_OK:
            return code
        say("\nScoring the held-out tasks at start and end…")
        api.score(RUN)
        page, reports = export_page(Registry([RUN]), RUN / "report")
        (report,) = reports.values()
    except RodsError as error:
        say(f"demo: {error}", aside=True)
        return error.exit_code
    for head, lines in (
        (f"The report is {page}. It says", report["findings"]),
        ("It does not claim", report["limits"]),
    ):
        say(f"\n{head}:")
        print_lines(lines, indent="  ")
    say(
        f"\nNext: . .venv/bin/activate, then rods dash · rods inspect {RUN} TASK · rods verify "
        f"{RUN} · README.md"
    )
    say(f"\nThat took {(time.monotonic() - started) / 60:.1f} minutes.")
    return EXIT_OK


def move_aside(config: Path) -> None:
    """Moves runs/demo aside if it is finished or was made with other settings."""
    if not exists(RUN):
        return
    why = "from another version"
    try:
        run = Run.open(RUN, read_config(config))
        run.check_environments()
        if Progress(RUN).poll().step < run.config.training.steps:
            return
        why = "finished"
    except RefusedError:
        pass
    number = 1
    while (aside := RUN.with_name(f"{RUN.name}-{number}")).exists():
        number += 1
    RUN.rename(aside)
    say(f"The demo in {RUN} was {why}; it is in {aside} now.")


if __name__ == "__main__":
    raise SystemExit(main())
