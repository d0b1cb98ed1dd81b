"""What a cluster of Ray adds to the core."""

from typing import TYPE_CHECKING

from rods.section import Section

if TYPE_CHECKING:
    from rods.family.provides import Provides


class RaySettings(Section):
    """The cluster that `operation.compute = "ray"` uses."""

    # of its head, such as "10.0.0.1:6379"; empty: RAY_ADDRESS, else a cluster of this machine alone
    address: str = ""


PROVIDES: "Provides" = {
    "operation": {"ray": RaySettings()},
    "computes": {"ray": "rods.family.ray_cluster.starting:places"},
}
