"""`rods report`: the page over a run as one file that opens from the disk, with what the run shows in sentences."""

from __future__ import annotations

from console.output import RunFolder, print_json, print_lines
from rods.commands import Json


def report(run: RunFolder, /, *, as_json: Json = False) -> None:
    """Write the page over a run (`rods dash`) as one file into its folder report/, and say what the run shows.

    Reads files only and may be asked of a living run. Held-out scores appear once `rods score` has made them.
    """
    from console.dash.export import export_report

    page, said = export_report(run)
    if as_json:
        print_json({"report": str(page), **said["numbers"]})
        return
    print(page)
    print_lines(said["findings"], indent="  ")
