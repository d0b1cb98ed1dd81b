"""`rods export`: what a run holds as tables for other tools, JSON lines or Parquet, and a card that says what they are.

A row has plain columns for filters and joins, and `record`, the whole of what the run has on record: a JSON object in
JSON lines, its text in Parquet, where the free form of states and arguments would break one column's type.
"""

from __future__ import annotations

import gzip
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from cyclopts import Parameter

from buffers.run.run import Run
from buffers.run.runfolder import EXPANDED, trace_file
from buffers.run.world_files import bring
from buffers.state import ClosedStep, RunState, read_state
from console.output import RunFolder, print_json
from rods.commands import Json
from rods.errors import RefusedError, UserError
from rods.tasks import AnyTask, scripted

Format = Literal["jsonl", "parquet", "bfcl"]
Row = dict[str, Any]
ROWS = 2_000  # written to Parquet at once
# The columns of each table but `record`, with their type: text, whole number, number, or a list of messages.
TABLES: Mapping[str, Mapping[str, str]] = {
    "tasks": {"task": "text", "type": "text", "origin": "text", "generation": "int", "environment": "text"},
    "variants": {
        **dict.fromkeys(("task", "type", "seed", "root", "model", "state", "why"), "text"),
        **dict.fromkeys(("generation", "picked", "injected"), "int"),
    },
    "groups": {
        **dict.fromkeys(("attempt", "step", "epoch", "stage", "rollouts"), "int"),
        **dict.fromkeys(("task", "role", "kind"), "text"),
        "reward": "number",
    },
    "traces": {
        **dict.fromkeys(("attempt", "step", "slot", "rollout", "resolved", "expected"), "int"),
        **dict.fromkeys(("task", "end"), "text"),
        "reward": "number",
    },
    "chats": {
        **dict.fromkeys(("step", "slot", "rollout"), "int"),
        **dict.fromkeys(("task", "end", "tools"), "text"),
        "reward": "number",
        "messages": "messages",
    },
}
ABOUT = {
    "tasks": "the active tasks of the pool; `record` is a task",
    "variants": "every variant that was accepted, and what became of it (`state`, `why`); `record` is a task",
    "groups": "every group of live steps; `reward` is its mean; `record` is the record of observations.jsonl",
    "traces": "the rollouts whose traces were kept; `record` is the trace: turns, calls, results, verdicts",
    "chats": "the same rollouts as conversations: `messages`, and `tools` as a JSON list of function documents",
}
LICENCES = {"desk": "Apache-2.0", "repository": "Apache-2.0", "bfcl": "Apache-2.0"}  # of the tasks that come along


def export(
    run: RunFolder,
    folder: Annotated[Path, Parameter(help="A new folder for the tables.")],
    /,
    *,
    format: Annotated[
        Format, Parameter(help="parquet: what datasets and DuckDB read best. bfcl: the pool in BFCL's own.")
    ] = "jsonl",
    as_json: Json = False,
) -> None:
    """Write tasks, variants, groups and kept traces of a run as tables, with a data card that `datasets` reads, and the
    files of generated worlds as they lie in the run."""
    if folder.exists() and any(folder.iterdir()):
        raise RefusedError("is not empty", where=str(folder), remedy="name a new folder")
    opened = Run.open(run)
    tables = _Tables(opened)
    if format == "bfcl":
        from worlds.bfcl import export as own

        counts: Mapping[str, int] = own.write([scripted(task, "BFCL's format") for task in tables.active()], folder)
        _say(folder, format, counts, as_json)
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write = _parquet if format == "parquet" else _jsonl
        counts = {name: write(folder, name, rows) for name, rows in tables.all()}
        (folder / "README.md").write_text(_card(opened, tables, counts, format), encoding="utf-8")
        bring(opened.named(), [opened.path], folder)
    except OSError as error:
        what = f"cannot write ({error.strerror})"
        raise UserError(what, where=str(folder), remedy="choose another folder") from error
    _say(folder, format, counts, as_json)


def _say(folder: Path, format: Format, counts: Mapping[str, int], as_json: bool) -> None:
    if as_json:
        print_json({"folder": folder, "format": format, "rows": counts})
    else:
        print(f"{folder}: {', '.join(f'{count} {name}' for name, count in counts.items())}")


class _Tables:
    """The rows of a run's tables. What the card counts is known once they were read."""

    def __init__(self, run: Run) -> None:
        self.run, self.state = run, read_state(run)
        self.models: Counter[str] = Counter()
        self.prompts: Counter[str] = Counter()

    def all(self) -> Iterator[tuple[str, Iterable[Row]]]:
        yield "tasks", self._tasks()
        yield "variants", self._variants()
        yield "groups", self._groups()
        yield "traces", self._traces()
        yield "chats", self._chats()

    def active(self) -> Iterator[AnyTask]:
        return map(self.state.task, self.state.active)

    def _tasks(self) -> Iterator[Row]:
        for member in self.state.active.values():
            task = self.state.task(member.task_id)
            origin = "variant" if member.generated else "original"
            yield {**_described(task), "origin": origin, "generation": member.generation, "record": task.as_json()}

    def _variants(self) -> Iterator[Row]:
        fates: dict[int, tuple[str, str]] = {}  # by the variant's place in its log
        injected: dict[int, int] = {}
        places = self.state.pool.injected
        for record in self.state.decisions():
            kind = record["kind"]
            if kind in ("injected", "refused"):
                fates[record["expanded"]] = ("active" if kind == "injected" else kind, record.get("why", ""))
                injected |= {record["expanded"]: record["step"]} if kind == "injected" else {}
            elif kind in ("retired", "revived") and record["task"] in places:
                fates[places[record["task"]]] = ("active", "") if kind == "revived" else (kind, record["rule"])
        for record in self.state.records(EXPANDED):
            task, about = record["task"], record["task"].get("provenance", {})
            state, why = fates.get(record["seq"], ("staged", ""))
            self.models[about.get("model", "")] += 1
            self.prompts.update(f"{name} {mark}" for name, mark in about.get("prompts", {}).items())
            yield {
                "task": task["id"],
                "type": task["type"],
                "seed": about.get("seed", ""),
                "root": about.get("root", ""),
                "model": about.get("model", ""),
                "state": state,
                "why": why,
                "generation": about.get("generation", 1),
                "picked": record["step"],
                "injected": injected.get(record["seq"]),
                "record": task,
            }

    def _steps(self) -> Iterator[ClosedStep]:
        return RunState(self.run, strict=True).steps()

    def _groups(self) -> Iterator[Row]:
        for step in self._steps():
            for record in step.records:
                rewards = [one["reward"] for one in record["rollouts"] if one["reward"] is not None]
                yield {
                    **{name: record[name] for name in ("attempt", "step", "stage", "task", "role")},
                    "epoch": step.epoch,
                    "rollouts": len(record["rollouts"]),
                    "kind": record["reward"]["kind"],
                    "reward": math.fsum(rewards) / len(rewards) if rewards else None,
                    "record": record,
                }

    def _traces(self) -> Iterator[Row]:
        for step in self._steps():
            path = trace_file(self.run.path, step.step, step.attempt)
            groups = {record["index"]: record for record in step.records}
            for line in gzip.decompress(path.read_bytes()).splitlines() if path.is_file() else ():
                trace = orjson.loads(line)
                yield {
                    "attempt": step.attempt,
                    "step": step.step,
                    **{name: trace[name] for name in ("slot", "rollout", "task", "end", "resolved", "expected")},
                    "reward": groups[trace["slot"]]["rollouts"][trace["rollout"]]["reward"],
                    "record": trace,
                }

    def _chats(self) -> Iterator[Row]:
        for row in self._traces():
            task = self.state.task(row["task"])
            known = self.run.environments.load(task.environment.name).tools()
            tools = [{"type": "function", "function": known[name].schema()} for name in task.tools]
            yield {
                **{name: row[name] for name in ("step", "slot", "rollout", "task", "end", "reward")},
                "tools": orjson.dumps(tools).decode(),
                "messages": row["record"]["messages"],
            }


def _described(task: AnyTask) -> Row:
    return {"task": task.id, "type": task.type, "environment": task.environment.name}


def _jsonl(folder: Path, name: str, rows: Iterable[Row]) -> int:
    count = 0
    with (folder / f"{name}.jsonl").open("wb") as file:
        for row in rows:
            file.write(orjson.dumps(row) + b"\n")
            count += 1
    return count


def _parquet(folder: Path, name: str, rows: Iterable[Row]) -> int:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        what = "Parquet needs pyarrow, which is not installed"
        raise UserError(what, where="--format", remedy="pip install pyarrow, or write jsonl") from error
    message = arrow.struct([("role", arrow.string()), ("content", arrow.string())])
    kinds = {"text": arrow.string(), "int": arrow.int64(), "number": arrow.float64(), "messages": arrow.list_(message)}
    columns = {column: kinds[kind] for column, kind in TABLES[name].items()}
    columns |= {} if name == "chats" else {"record": arrow.string()}
    count, schema = 0, arrow.schema(list(columns.items()))
    with parquet.ParquetWriter(folder / f"{name}.parquet", schema, compression="zstd") as writer:
        left = iter(rows)
        while some := list(islice(left, ROWS)):
            count += len(some)
            held = [row | {"record": orjson.dumps(row["record"]).decode()} if "record" in row else row for row in some]
            writer.write_table(arrow.Table.from_pylist(held, schema))
    return count


def _card(run: Run, tables: _Tables, counts: Mapping[str, int], format: Format) -> str:
    """The data card, with the header by which `datasets` finds the tables."""
    config, used = run.config, sorted({task.environment.name for task in run.tasks})
    licences = {name: LICENCES.get(name, "not known here: say it before you pass this on") for name in used}
    models = {name: count for name, count in tables.models.items() if name}
    policy = config.policy.model or config.policy.kind
    lines = ["---", "configs:"]
    for name in counts:
        lines += [f"- config_name: {name}", f"  data_files: {name}.{format}"]
    lines += ["---", "", f"# {run.path.name}", ""]
    lines += [f"Exported from a run of RODS {run.manifest['versions'].get('rods', '')}, created with the identity"]
    lines += [f"{run.manifest.get('identity_hash', '')} (configuration: `config.toml` of the run).".lstrip(), ""]
    lines += ["| table | rows | |", "|---|---|---|"]
    lines += [f"| {name} | {count} | {ABOUT[name]} |" for name, count in counts.items()]
    lines += ["", "| | |", "|---|---|", f"| policy | {policy}, dialect {config.policy.dialect} |"]
    lines += [f"| tasks given | {len(run.tasks)}, from `{config.data.tasks}` |"]
    lines += [f"| environment | {name} ({run.named()[name]}); licence {licences[name]} |" for name in used]
    lines += [f"| author | {config.pipeline.author} |"]
    lines += [f"| written by | {name}: {count} variants |" for name, count in sorted(models.items())]
    lines += [f"| prompt | {name} in {count} variants |" for name, count in sorted(tables.prompts.items())]
    lines += [
        "",
        "Held-out tasks are in none of the tables. Which gates a variant has passed stands in its provenance and",
    ]
    lines += ["in the configuration. Texts of models are data: nobody has read them.", ""]
    return "\n".join(lines)
