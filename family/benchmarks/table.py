"""The table of a suite as a file of the run, eval/suite/table.json: what `rods-eval suite` has
printed last, for the page. It is written whole or not at all; a reader takes a bounded part of
whatever lies there."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

import orjson
from pydantic import BaseModel, Field, FiniteFloat

from rods.buffers.log.disk import replace
from rods.buffers.run import runfolder
from rods.canonical import JsonMapping, JsonObject
from rods.errors import UserError
from rods.files import read_regular

SUITE = Path(runfolder.EVALUATION) / "suite"
TABLE = SUITE / "table.json"
MOST_BYTES = 1 << 20
# that are shown; BFCL's benchmarks have 51 rows
MOST_ROWS = 200
MOST_NOTES = 40
MOST_TEXT = 1_000  # characters of a name or a note
AGAIN = "`rods-eval suite` writes it again"


class _Estimate(BaseModel):
    mean: FiniteFloat
    interval: tuple[FiniteFloat, FiniteFloat] | None
    tasks: Annotated[int, Field(ge=0, le=1 << 40)]


class _Pair(BaseModel):
    before: _Estimate
    after: _Estimate
    difference: _Estimate


class _Table(BaseModel):
    """`rows`: by benchmark and kind of item."""

    rows: dict[str, dict[str, _Pair]]
    notes: list[str]


def write(run: Path, rows: Mapping[str, JsonMapping], notes: Sequence[str]) -> None:
    """Keeps `kinds` of each benchmark's row (`scores.compare`), and sentences about them, in the
    run's folder."""
    content = {"rows": {name: row["kinds"] for name, row in rows.items()}, "notes": [*notes]}
    (run / SUITE).mkdir(parents=True, exist_ok=True)
    replace(run / TABLE, orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")


def tables(run: Path) -> Iterator[JsonObject]:
    """As the page's `TABLES` has them; nothing where no suite was played. A file that is no such
    table is a note."""
    try:
        content = _Table.model_validate(orjson.loads(read_regular(run / TABLE, MOST_BYTES)))
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, UserError, ValueError) as error:
        why = "it is no table of a suite" if isinstance(error, ValueError) else str(error)
        content = _Table(rows={}, notes=[f"{TABLE} cannot be read: {why} → {AGAIN}"])
    pairs = (
        (name, kind, pair) for name, kinds in content.rows.items() for kind, pair in kinds.items()
    )
    by_benchmark: dict[str, list[JsonObject]] = {}
    for name, kind, pair in islice(pairs, MOST_ROWS):
        estimates = {"start": pair.before, "end": pair.after, "difference": pair.difference}
        cells = {key: value.model_dump() for key, value in estimates.items()}
        by_benchmark.setdefault(name[:MOST_TEXT], []).append({"name": kind[:MOST_TEXT], **cells})
    for name, rows in by_benchmark.items():
        yield {"title": f"Benchmark {name}", "source": str(TABLE), "rows": rows, "notes": []}
    notes = [note[:MOST_TEXT] for note in content.notes[:MOST_NOTES]]
    if (count := sum(map(len, content.rows.values()))) > MOST_ROWS:
        notes.append(f"{count - MOST_ROWS} of its {count} rows are not shown")
    if notes:
        yield {"title": "Benchmarks", "source": str(TABLE), "rows": [], "notes": notes}
