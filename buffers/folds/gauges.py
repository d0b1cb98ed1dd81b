"""What dashboards draw of a run, as plain numbers: zones, pool and staging as they stand."""

from __future__ import annotations

from collections import Counter

from buffers.folds.observations import Observations
from buffers.folds.pool import PoolView
from rods.rules.zones import ZONES


def zone_counts(observations: Observations, view: PoolView) -> dict[str, int]:
    """Active tasks by the zone of their latest group; tasks without one are in none."""
    counts: Counter[str | None] = Counter(observations.tracker.zone(task) for task in view.active)
    return {zone: counts[zone] for zone in ZONES}


def gauges(observations: Observations, view: PoolView) -> dict[str, int]:
    """`zone/<zone>`, `pool/originals`, `pool/generated`, `pool/retired` and `staging/waiting`, in tasks."""
    generated, pool = len(view.pool.generated), view.pool
    waiting = view.staging.candidates(view.staging.seq, pool.decided, by_pick=False)
    return {
        **{f"zone/{zone}": count for zone, count in zone_counts(observations, view).items()},
        "pool/originals": len(view.active) - generated,
        "pool/generated": generated,
        "pool/retired": pool.retired,
        "staging/waiting": len(waiting),
    }
