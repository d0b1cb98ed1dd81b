"""What the probe adds to the configuration and to the run folder."""

from pydantic import Field

from rods.extension import Section

PROBES = "probes.jsonl"


class ProbeSettings(Section):
    """Before a merge the policy plays the variants of each pick, and of each pick one comes into
    the pool: that whose mean progress lies nearest to one half (docs/probe.md). A pick has
    `pipeline.variants_per_seed` variants."""

    enabled: bool = False  # whether it does
    rollouts: int = Field(2, ge=1)  # of each variant that others compete with
