"""The pinned `evalscope` wheel, whose ACEBench is the official protocol; the items, which a user's
checkout has; and the worker process in which the package's own code runs (`official`)."""

import hashlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from cyclopts import Parameter

from rods.buffers.log.disk import replace
from rods.commands import Json
from rods.environments.registry import declared
from rods.environments.workers.worker import Worker
from rods.errors import UserError, say
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
TOTAL: list[dict[str, Any]] = declared("rods.family.benchmarks", "benchmark.toml")["acebench"][
    "total"
]["parts"]
KINDS: list[str] = [kind for part in TOTAL for kind in part["mean"]]
ITEMS = "acebench.jsonl"  # in the cache
_KEPT = ("id", "question", "function", "time", "profile", "initial_config", "involved_classes")
Language = Literal["en", "zh"]


def fetch(
    folder: Annotated[
        Path | None, Parameter(help="a checkout of ACEBench; none: the wheel alone")
    ] = None,
    /,
    *,
    language: Annotated[Language, Parameter(help="of the items")] = "en",
    as_json: Json = False,
) -> None:
    """Fetch the pinned wheel of evalscope (4.9 MB) once, and check its hash; nothing of it is
    installed. Then keep the items that FOLDER has (data_all/data_en, or data_zh) in the cache, in
    the place of those that were kept before."""
    facts: dict[str, Any] = {"wheel": str(WHEEL.fetch())}
    if folder is not None:
        rows = [*gathered(folder / "data_all" / f"data_{language}", language)]
        replace(
            file := user_cache() / ITEMS, "".join(json.dumps(row) + "\n" for row in rows).encode()
        )
        facts |= {"kept": str(file), "count": len(rows), **data()}
    say(
        orjson.dumps(facts).decode()
        if as_json
        else "\n".join(f"{name}: {told}" for name, told in facts.items())
    )


def gathered(folder: Path, language: Language) -> Iterator[dict[str, Any]]:
    """The items of the 17 categories with their answers, as the package's records have them. Raises
    UserError for a file that is missing or cannot be read, and for an item without an answer."""
    for kind in KINDS:
        file = f"data_{kind}.json"
        answers = {answer["id"]: answer for answer in _lines(folder / "possible_answer" / file)}
        for item in _lines(folder / file):
            if "ground_truth" not in (answer := answers.get(item["id"], {})):
                where = str(folder / "possible_answer" / file)
                raise UserError(
                    f"has no answer to {item['id']!r}", where=where, remedy="take a whole checkout"
                )
            rubric = {
                "ground_truth": answer["ground_truth"],
                "mile_stone": answer.get("mile_stone", []),
            }
            fields = {name: item[name] for name in _KEPT if name in item}
            yield {**fields, "rubric": rubric, "sub_category": f"data_{kind}", "language": language}


def _lines(file: Path) -> list[dict[str, Any]]:
    remedy = "name a checkout of ACEBench, which has data_all/data_en and data_all/data_zh"
    try:
        rows = [
            json.loads(line)
            for line in read_regular(file, BULK).decode().splitlines()
            if line.strip()
        ]
    except (OSError, ValueError) as error:
        raise UserError(f"cannot be read ({error})", where=str(file), remedy=remedy) from error
    if not rows or not all(
        isinstance(row, dict) and isinstance(row.get("id"), str) for row in rows
    ):
        raise UserError("is no list of items with ids, one a line", where=str(file), remedy=remedy)
    return rows


def items() -> tuple[Path, bytes]:
    """Where the items are kept, and what they are. Raises UserError."""
    file = user_cache() / ITEMS
    if not file.is_file():
        remedy = (
            f"run `{WHEEL.verb} FOLDER` once with a checkout of ACEBench: nothing else has them"
        )
        raise UserError("the items of ACEBench are not there", where=str(file), remedy=remedy)
    return file, read_regular(file, BULK)


def data() -> dict[str, str]:
    """What a score belongs to: the package, and the items by language and hash. Raises
    UserError."""
    content = items()[1]
    language = json.loads(content.partition(b"\n")[0])["language"]
    digest = hashlib.sha256(content).hexdigest()
    return {**WHEEL.facts, "language": language, "items": digest}


@cache
def worker(file: Path, digest: str) -> Worker:
    """The process that answers the requests of `official.answer` about the items in `file`, whose
    hash is `digest`. Raises UserError where the wheel is not there."""
    opening = {"do": "open", "wheel": str(WHEEL.path()), "items": str(file), "sha256": digest}
    return own_worker("rods.family.benchmarks.acebench.official:answer", opening)
