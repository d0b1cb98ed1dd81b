"""`rods data export`: what a run holds as tables for other tools, and a card that says what they
are; or tasks alone.

A row of JSON lines has plain columns for filters and joins, and `record`, the text of the whole of
what the run has on record: as an object the free form of states and arguments would break one
column's type.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Annotated

import orjson
from cyclopts import Parameter

from rods.buffers.log.record_bytes import believed
from rods.buffers.run.creation import bring
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED
from rods.buffers.state import RunState, read_state
from rods.canonical import JsonObject, only
from rods.commands import Json
from rods.console.output import print_result
from rods.environments import registry
from rods.episode.engine import StepTrace, Trace
from rods.errors import EXIT_FAILED, EXIT_OK, RefusedError, UserError
from rods.files import made_whole, read_toml, unpacked_lines
from rods.functions import named_function
from rods.tasks import AnyTask, Task, read_tasks, state_json

Row = JsonObject
CARD = Path(__file__).with_name("card.txt").read_text(encoding="utf-8")
TABLES = read_toml(Path(__file__).with_name("tables.toml"))
FORMATS = "jsonl" + "".join(
    f", {name} (the pool in that benchmark's own)" for name in registry.having("format")
)


def export(
    run: Path,
    folder: Path,
    /,
    *,
    format: Annotated[str, Parameter(help=FORMATS)] = "jsonl",
    as_json: Json = False,
) -> int:
    """Write tasks, variants, groups and kept traces of a run as tables, with a data card that
    `datasets` reads, and the files of generated worlds as they lie in the run. Traces that cannot
    be read, or told without their world, are named and left out; exits 1 then.

    Args:
        run: The run folder; for a benchmark's own format a JSONL file of tasks, too.
        folder: A new folder for the tables.
    """
    if folder.exists() and any(folder.iterdir()):
        raise RefusedError("is not empty", where=folder, remedy="name a new folder")
    own = registry.having("format")
    if format not in (formats := ["jsonl", *own]):
        raise UserError(
            f"{format!r} is no known format", where="--format", remedy=f"use {', '.join(formats)}"
        )
    counts: Mapping[str, int]
    tables = None if format in own and run.is_file() else _Tables(Run.open(run))
    tasks = (
        read_tasks(run)
        if tables is None
        else [tables.state.task(task) for task in tables.state.active]
    )
    with made_whole(folder.absolute()) as part:
        if tables is None or format in own:
            counts = named_function(own[format], where=f"--format {format}")(tasks, part)
        else:
            counts = {
                name: _write(part / f"{name}.jsonl", getattr(tables, name)()) for name in TABLES
            }
            (part / "README.md").write_text(_card(tables, counts), encoding="utf-8")
            bring(tables.run.manifest["environments"], [tables.run.path], part)
    left_out = list(tables.left_out) if tables else []
    print_result(
        as_json,
        {"folder": folder, "format": format, "rows": counts, "left_out": left_out},
        (f"left out: {why}" for why in left_out),
        f"{folder}: {', '.join(f'{count} {name}' for name, count in counts.items())}",
    )
    return EXIT_FAILED if left_out else EXIT_OK


class _Tables:
    """The rows of a run's tables (`TABLES`), a method each. What the card counts, and why rows are
    `left_out`, is known once they were read."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.state = read_state(run)
        self.models: Counter[str] = Counter()
        self.prompts: Counter[str] = Counter()
        self.left_out: dict[str, None] = {}

    @contextmanager
    def _leaving_out(self, where: object) -> Iterator[None]:
        """Around what one row, or one file of them, may break over."""
        try:
            yield
        except UserError as error:
            self.left_out[str(error)] = None
        except (LookupError, TypeError, ValueError) as error:
            self.left_out[f"{where}: {error!r}"] = None

    def tasks(self) -> Iterator[Row]:
        for member in self.state.active.values():
            task = self.state.task(member.task_id)
            origin = "variant" if member.generated else "original"
            yield {
                "task": task.id,
                "type": task.type,
                "environment": task.environment.name,
                "origin": origin,
                "generation": member.generation,
                "record": task.as_json(),
            }

    def variants(self) -> Iterator[Row]:
        fates: dict[int, Row] = {}  # the latest decision, by the variant's place in its log
        injected: dict[int, int] = {}
        places = self.state.pool.injected
        for record in self.state.decisions():
            place = record.get("expanded", places.get(record.get("task", "")))
            if place is not None:
                fates[place] = record
                injected |= {place: record["step"]} if record["kind"] == "injected" else {}
        for record in self.state.records(EXPANDED):
            task = record["task"]
            about = task.get("provenance", {})
            fate = fates.get(record["seq"], {"kind": "staged"})
            active = fate["kind"] in ("injected", "revived")
            self.models[about.get("model", "")] += 1
            self.prompts.update(f"{name} {mark}" for name, mark in about.get("prompts", {}).items())
            yield {
                "task": task["id"],
                "type": task["type"],
                **{name: about.get(name, "") for name in ("seed", "root", "model")},
                "state": "active" if active else fate["kind"],
                "why": "" if active else fate.get("rule", ""),
                "generation": about.get("generation", 1),
                "picked": record["step"],
                "injected": injected.get(record["seq"]),
                "record": task,
            }

    def groups(self) -> Iterator[Row]:
        for step in RunState(self.run, strict=True).steps():
            for record in step.records:
                with believed((record,)):
                    rewards = (rollout["reward"] for rollout in record["rollouts"])
                    valid = [reward for reward in rewards if reward is not None]
                yield {
                    **only(record, ("attempt", "step", "stage", "task", "role")),
                    "epoch": step.epoch,
                    "rollouts": len(record["rollouts"]),
                    "kind": record["reward"]["kind"],
                    "reward": fmean(valid) if valid else None,
                    "record": record,
                }

    def traces(self) -> Iterator[Row]:
        for step in RunState(self.run, strict=True).steps():
            path = self.run.trace_file(step.step, step.attempt)
            groups = {record["index"]: record for record in step.records}
            with self._leaving_out(path):
                for number, line in enumerate(unpacked_lines(path) if path.is_file() else (), 1):
                    with self._leaving_out(f"{path}:{number}"):
                        trace = orjson.loads(line)
                        rollout = groups[trace["slot"]]["rollouts"][trace["rollout"]]
                        yield {
                            "attempt": step.attempt,
                            "step": step.step,
                            **only(
                                trace, ("slot", "rollout", "task", "end", "resolved", "expected")
                            ),
                            "reward": rollout["reward"],
                            "record": trace,
                        }

    def chats(self) -> Iterator[Row]:
        for row in self.traces():
            with self._leaving_out(f"a trace of step {row['step']}"):
                task = self.state.task(row["task"])
                by_name = self.run.environments.load(task.environment.name).tools()
                tools = [
                    {"type": "function", "function": by_name[name].schema()} for name in task.tools
                ]
                yield {
                    **only(row, ("step", "slot", "rollout", "task", "end", "reward")),
                    "world": task.environment.name,
                    "state": "" if task.state is None else state_json(task.state).decode(),
                    "tools": orjson.dumps(tools).decode(),
                    "messages": [*conversation(task, Trace.from_json(row["record"]))],
                }


def conversation(task: AnyTask, trace: Trace) -> Iterator[JsonObject]:
    """The messages of an episode of `task` in the common form, with `tool_calls`, whatever dialect
    the policy wrote them in. Prompts and documents of tools are left out; a
    complaint about a malformed reply is the message of a `system`."""
    if task.system:
        yield {"role": "system", "content": task.system}
    steps = iter([(turn, step) for turn, part in enumerate(trace.turns) for step in part.steps])
    turn = -1
    last: StepTrace | None = None
    calls = 0
    for message in trace.messages[1:]:
        if message.role == "assistant":
            turn, last = next(steps)
            names = [f"call_{calls + place}" for place in range(len(last.calls))]
            calls += len(names)
            yield _reply(last, names)
            for name, result in zip(names, last.results, strict=True):
                yield {"role": "tool", "tool_call_id": name, "content": result.text}
        elif last is not None and last.error is not None:
            yield {"role": "system", "content": message.content}
        elif last is None or not last.calls:
            # without the documents of tools that return with it
            said = task.script[turn + 1] if isinstance(task, Task) else message.content
            yield {"role": "user", "content": said}


def _reply(step: StepTrace, names: list[str]) -> JsonObject:
    if not step.calls:
        return {"role": "assistant", "content": step.text}
    called = [
        {
            "id": name,
            "type": "function",
            "function": {
                "name": call.name,
                "arguments": orjson.dumps(dict(call.arguments)).decode(),
            },
        }
        for name, call in zip(names, step.calls, strict=True)
    ]
    return {"role": "assistant", "content": None, "tool_calls": called}


def _write(path: Path, rows: Iterable[Row]) -> int:
    count = 0
    with path.open("wb") as file:
        for row in rows:
            extra = {"record": orjson.dumps(row["record"]).decode()} if "record" in row else {}
            file.write(orjson.dumps(row | extra) + b"\n")
            count += 1
    return count


def _card(tables: _Tables, counts: Mapping[str, int]) -> str:
    """The data card, with the header by which `datasets` finds the tables."""
    run = tables.run
    config = tables.run.config
    hashes = run.manifest["environments"]
    licences = registry.licences()
    unknown = "not known here: say it before you pass this on"
    facts = [
        ("policy", f"{config.policy.model or config.policy.kind}, dialect {config.policy.dialect}"),
        ("tasks given", f"{len(run.tasks)}, from `{config.data.tasks}`"),
        *(
            ("environment", f"{name} ({hashes[name]}); licence {licences.get(name, unknown)}")
            for name in sorted(run.tasks.columns.environments)
        ),
        ("author", config.pipeline.author),
        *(
            ("written by", f"{name}: {count} variants")
            for name, count in sorted(tables.models.items())
            if name
        ),
        *(
            ("prompt", f"{name} in {count} variants")
            for name, count in sorted(tables.prompts.items())
        ),
    ]
    return CARD.format(
        tags="\n- synthetic" if counts["variants"] else "",
        files="\n".join(f"- config_name: {name}\n  data_files: {name}.jsonl" for name in counts),
        name=run.path.name,
        version=run.manifest["versions"].get("rods", ""),
        identity=f"{run.manifest.get('identity_hash', '')} (configuration: `config.toml` of the "
        f"run).".lstrip(),
        tables="\n".join(
            f"| {name} | {count} | {TABLES[name]['about']} |" for name, count in counts.items()
        ),
        facts="\n".join(f"| {name} | {value} |" for name, value in facts),
    )
