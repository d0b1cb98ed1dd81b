"""Checks of what a user brings: a task file (`rods data check`) and an environment (`rods env check`).

Both look for every fault, not just the first, and return a `CheckReport` whose faults name place, field and remedy.
"""
