"""What can be taken out of the tree (tests/test_removal.py), and what is gone from this one."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
PARTS: dict[str, tuple[str, ...]] = {  # its folders, its own first
    "bfcl": (
        "worlds/bfcl",
        "family/benchmarks/bfcl",
        *(f"family/benchmarks/bfcl_{name}" for name in ("single", "memory", "search")),
    ),
    "tau2": ("family/benchmarks/tau2",),
    "acebench": ("family/benchmarks/acebench",),
    "mcp": ("worlds/mcp",),
    "openenv": ("worlds/openenv",),
    "sandbox": ("worlds/sandbox",),
    "benchmarks": ("family/benchmarks",),
    "seal": ("family/seal",),
    "feedback": ("family/feedback",),
    "environments": ("family/environments",),
    "simulation": ("family/simulation",),
    "export": ("family/export",),
    "conversations": ("family/conversations",),
    "harbor": ("family/harbor",),
    "new_world": ("family/new_world",),
    "page": ("family/page",),
    "planning": ("family/planning",),
    "supervised": ("family/supervised",),
    "trials": ("family/trials",),
    "twins": ("family/twins",),
    "triage": ("family/triage",),
    "schedule": ("family/schedule",),
    "admit": ("family/admit",),
    "reword": ("family/reword",),
    "processes": ("family/processes",),
    "ray_cluster": ("family/ray_cluster",),
    "adapters": ("trainer/adapters",),
}
GONE = [part for part, (own, *_) in PARTS.items() if not (ROOT / own).is_dir()]
GONE_FOLDERS = tuple(
    folder for folders in PARTS.values() for folder in folders if not (ROOT / folder).is_dir()
)
