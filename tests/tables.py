"""Tables of the guides, compared with what a program says by the names of rows and columns."""

from __future__ import annotations

from collections.abc import Iterator


def tables(text: str) -> Iterator[dict[str, dict[str, str]]]:
    """The Markdown tables of a text: the first cell of a row → column → cell."""
    block: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            block.append([cell.strip() for cell in line.strip().strip("|").split("|")])
        elif block:
            yield {row[0]: dict(zip(block[0], row, strict=False)) for row in block[2:]}
            block = []


def rows(text: str, *columns: str) -> dict[str, dict[str, str]]:
    """The rows of the tables of a text that have all of `columns`."""
    selected: dict[str, dict[str, str]] = {}
    for table in tables(text):
        selected |= {name: row for name, row in table.items() if row.keys() >= set(columns)}
    return selected


def differences(page: str, program: str, *columns: str) -> list[str]:
    """Cells of `page` that differ from what a program prints, in tables that have these columns.

    A page may leave out rows and columns. Raises ValueError where it has no row of the program's.
    """
    printed = rows(program, *columns)
    shown = {name: row for name, row in rows(page, *columns).items() if name in printed}
    if not shown:
        raise ValueError(f"no table with the columns {', '.join(columns)}")
    return [
        f"{name}, {column}: {cell} on the page, {printed[name][column]} by the program"
        for name, row in shown.items()
        for column, cell in row.items()
        if column in printed[name] and cell != printed[name][column]
    ]
