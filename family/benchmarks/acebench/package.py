"""The pinned `evalscope` wheel, whose ACEBench is the official protocol; the items, which a user's
checkout has; and the worker process in which the package's own code runs (`official`)."""

import hashlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rods.buffers.log.disk import replace
from rods.canonical import JsonObject, only
from rods.commands import Json
from rods.console.output import print_result
from rods.environments.registry import declared
from rods.environments.workers.worker import Worker
from rods.errors import UserError
from rods.family.benchmarks.workers import worker as own_worker
from rods.files import BULK, read_regular, user_cache
from rods.wheels import Wheel

WHEEL = Wheel(
    "evalscope",
    "1.14.1",
    "ae4bb15908862d6ae22c9ffe2af3c11e8f446a0ea798912870178f4347ef90c4",
    "rods data acebench",
    "code of ACEBench's protocol",
)
DECLARED = declared("rods.family.benchmarks", "benchmark.toml")["acebench"]
KINDS: list[str] = DECLARED["total"]["parts"][0]["mean"]
ITEMS = "acebench.jsonl"  # in the cache
_FIELDS = ("id", "question", "function", "initial_config", "involved_classes")


def fetch(
    folder: Annotated[
        Path | None, Parameter(help="a checkout of ACEBench; none: the wheel alone")
    ] = None,
    /,
    *,
    as_json: Json = False,
) -> None:
    """Fetch the pinned wheel of evalscope (4.9 MB) once, and check its hash; nothing of it is
    installed. Then keep the agents' items that FOLDER has (data_all/data_en) in the cache, in the
    place of those that were kept before."""
    facts: JsonObject = {"wheel": str(WHEEL.fetch())}
    if folder is not None:
        rows = [*gathered(folder / "data_all" / "data_en")]
        replace(
            file := user_cache() / ITEMS, "".join(json.dumps(row) + "\n" for row in rows).encode()
        )
        facts |= {"kept": str(file), "count": len(rows), **data()}
    print_result(as_json, facts, (f"{name}: {fact}" for name, fact in facts.items()))


def gathered(folder: Path) -> Iterator[JsonObject]:
    """The items with their answers, as the package's records have them. Raises UserError for a file
    that is missing or cannot be read, and for an item without an answer."""
    for kind in KINDS:
        file = f"data_{kind}.json"
        answers = {answer["id"]: answer for answer in _lines(folder / "possible_answer" / file)}
        for item in _lines(folder / file):
            answer = answers.get(item["id"], {})
            if "ground_truth" not in answer:
                raise UserError(
                    f"has no answer to {item['id']!r}",
                    where=str(folder / "possible_answer" / file),
                    remedy="take a whole checkout",
                )
            fields = only(item, _FIELDS)
            yield {
                **fields,
                "rubric": {name: answer.get(name, []) for name in ("ground_truth", "mile_stone")},
                "sub_category": f"data_{kind}",
            }


def _lines(file: Path) -> list[JsonObject]:
    remedy = "name a checkout of ACEBench, which has data_all/data_en"
    try:
        rows = [
            json.loads(line)
            for line in read_regular(file, BULK).decode().splitlines()
            if line.strip()
        ]
    except (OSError, ValueError) as error:
        raise UserError(f"cannot be read ({error})", where=file, remedy=remedy) from error
    if not rows or not all(
        isinstance(row, dict) and isinstance(row.get("id"), str) for row in rows
    ):
        raise UserError("is no list of items with ids, one a line", where=file, remedy=remedy)
    return rows


def items() -> tuple[Path, bytes]:
    """Where the items are kept, and what they are. Raises UserError."""
    file = user_cache() / ITEMS
    if not file.is_file():
        raise UserError(
            "the items of ACEBench are not there",
            where=file,
            remedy=f"run `{WHEEL.verb} FOLDER` once with a checkout of ACEBench: nothing else "
            "has them",
        )
    return file, read_regular(file, BULK)


def data() -> dict[str, str]:
    """What a score belongs to: the package, and the items by their hash. Raises UserError."""
    return {**WHEEL.facts, "items": hashlib.sha256(items()[1]).hexdigest()}


@cache
def worker(file: Path, digest: str) -> Worker:
    """The process that answers the requests of `official.answer` about the items in `file`, whose
    hash is `digest`. Raises UserError where the wheel is not there."""
    opening = {"do": "open", "wheel": str(WHEEL.path()), "items": str(file), "sha256": digest}
    return own_worker("rods.family.benchmarks.acebench.official:answer", opening)
