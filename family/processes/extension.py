"""What processes beside the daemon add to the core."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rods.family.provides import Provides

PROVIDES: "Provides" = {"computes": {"processes": "rods.family.processes.places:places"}}
