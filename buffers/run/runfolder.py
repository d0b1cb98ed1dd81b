"""The names of the files in a run folder (docs/protocol.md). Nothing here opens a file."""

from pathlib import Path

CONFIG = "config.toml"
MANIFEST = "manifest.json"
TASKS = "tasks.jsonl"
TRACKER = "tracker.json"
TRACKER_VERSION = 2  # 1 called a window's `lineage` `interface`

# Logs. A name is that of the live part; closed parts are `<stem>.<first seq, 12 digits>.jsonl`. The
# star stands for an epoch number of at least four digits: the parts of that one log carry it in
# their names.
OBSERVATIONS = "observations.jsonl"
SEEDS = "seeds.jsonl"
EXPANDED = "expanded_epoch_*.jsonl"
REJECTED = "rejected.jsonl"
EXTENSIONS = "extensions.jsonl"
POOL = "pool.jsonl"
LOSSES = "losses.jsonl"  # what `rods verify` found after repairs that a person agreed to
RECORDED = (OBSERVATIONS, POOL, SEEDS, EXPANDED, REJECTED, EXTENSIONS, LOSSES)

LOCKS = "locks"  # ownership files
RECOVERED = "recovered"  # what `rods recover` has moved aside
SNAPSHOTS = "snapshots"  # of folds: they save time, and may be deleted
TASK_COLUMNS = f"{SNAPSHOTS}/tasks.columns"
TRACES = "traces"
CHECKPOINTS = "checkpoints"
EVALUATION = "eval"
LOGS = "logs"


def usage(process: str) -> str:
    """The log of model calls that `process` made."""
    return f"usage.{process}.jsonl"


def operation(process: str) -> str:
    """The log of the starts of `process`, and of the checkpoints that the trainer took."""
    return f"operation.{process}.jsonl"


def expanded_segment(epoch: int) -> str:
    """The live part of the log of variants while `epoch` is the highest epoch read."""
    return f"expanded_epoch_{epoch:04d}.jsonl"


def exists(folder: Path) -> bool:
    """Whether `folder` is a run folder: creation ends by renaming a complete one into place."""
    return (folder / MANIFEST).is_file()
