"""What the probe adds to the core."""

from typing import Any

from rods.extension import EpochNotes, Extension
from rods.family.probe.settings import PROBES, ProbeSettings

ROLLOUT = {"resolved": "count", "expected": "positive", "end": "end"}


class Probe(Extension):
    name = "probe"
    sections = {"probe": ProbeSettings()}
    logs = (PROBES,)
    record_keys = {"probed": ("attempt", "epoch")}
    record_shapes = {
        "probed": {
            **dict.fromkeys(("attempt", "epoch", "step", "stage", "expanded_seq"), "count"),
            "variants": [
                {"pick": "text", "expanded": "count", "task": "text", "rollouts": [ROLLOUT]}
            ],
        }
    }

    def validate(self, config: Any) -> None:
        if config.probe.enabled and (config.pipeline.variants_per_seed < 2 or config.pool.static):
            raise ValueError(
                "probe.enabled needs pipeline.variants_per_seed >= 2, and a pool that is not static"
            )

    def epoch_notes(self, run: Any, *, strict: bool = False) -> EpochNotes | None:
        from rods.family.probe.contest import Probes

        return Probes(run, strict=strict) if run.config.probe.enabled else None


EXTENSION = Probe()
