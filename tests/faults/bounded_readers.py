"""Every kind of file that a run folder may hold, of more bytes than there is memory, before what
reads it."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.console.conftest import finished
from tests.console.test_bombs import BOMBS, against
from tests.faults.forge import Forge
from tests.faults.table import Row
from tests.faults.workloads import Verdict


def bounded_readers(scratch: Path) -> Row:
    """Who reads it has 1 GiB, says that it is too large or has no need of it, and changes nothing
    on record."""
    row = Row("a file of a run larger than memory")
    run = finished(scratch / "read")
    with Forge() as forge:
        for kind, bombs in BOMBS.items():
            for bomb in bombs:
                why = against(run, forge, scratch / "bomb" / "run", bomb)
                row.add(f"{kind}, {' '.join(bomb.verb)}", Verdict(wrong=[why] if why else []))
                shutil.rmtree(scratch / "bomb")
    shutil.rmtree(scratch / "read")
    return row
