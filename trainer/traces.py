"""Kept traces: `traces/step_<step>.a<attempt>.jsonl.gz`, one JSON object a rollout, for people who look into a run.

Recovery never needs them: no fsync, and the oldest files go when the folder outgrows `operation.trace_bytes`.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson


class Traces:
    """Writes every `every`-th step's traces and keeps at most `limit` bytes of them (0: none)."""

    def __init__(self, run_folder: Path, limit: int, every: int) -> None:
        self.folder, self.limit, self.every = run_folder / "traces", limit, every

    def wanted(self, step: int) -> bool:
        return self.limit > 0 and (step - 1) % self.every == 0

    def write(self, step: int, attempt: int, records: Sequence[Mapping[str, Any]]) -> None:
        """Writes one step's rollouts, then deletes the oldest steps beyond the limit."""
        if not records:
            return
        self.folder.mkdir(exist_ok=True)
        lines = b"".join(orjson.dumps(record) + b"\n" for record in records)
        path = self.folder / f"step_{step:08d}.a{attempt}.jsonl.gz"
        path.write_bytes(gzip.compress(lines, compresslevel=3, mtime=0))
        sizes = {item: item.stat().st_size for item in sorted(self.folder.glob("step_*.jsonl.gz"))}
        total = sum(sizes.values())
        for item, size in sizes.items():
            if total <= self.limit:
                break
            item.unlink()
            total -= size
