"""Checks of what a user brings: a task file (`rods data check`) and an environment (`rods env check`).

Both look for every fault, not just the first, and return a `CheckReport` whose faults name place, field and remedy.
"""

from rods.checking.environments import check_environment
from rods.checking.files import check_file
from rods.checking.report import CheckReport, Fault

__all__ = ["CheckReport", "Fault", "check_environment", "check_file"]
