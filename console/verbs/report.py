"""`rods report`: plots and one self-contained HTML page about a run, read from its files."""

from __future__ import annotations

from console.output import RunFolder, print_json, print_lines
from rods.commands import Json


def report(run: RunFolder, /, *, as_json: Json = False) -> None:
    """Write plots and one self-contained HTML page about a run into its folder report/, and say what they show.

    Reads files only and may be asked of a living run. Held-out scores appear once `rods score` has made them.
    """
    from console.report.findings import findings, numbers
    from console.report.history import read_history
    from console.report.page import build

    history = read_history(run)
    page = build(history, run / "report")
    if as_json:
        print_json({"report": str(page), **numbers(history)})
        return
    print(page)
    print_lines(findings(history), indent="  ")
