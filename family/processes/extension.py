"""What processes beside the daemon add to the core."""

from rods.extension import Extension


class Processes(Extension):
    name = "processes"
    computes = {"processes": "rods.family.processes.places:places"}


EXTENSION = Processes()
