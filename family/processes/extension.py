"""What processes beside the daemon add to the core."""

PROVIDES = {"computes": {"processes": "rods.family.processes.places:places"}}
