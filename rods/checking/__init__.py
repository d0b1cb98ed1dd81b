"""Checks of what a user brings: a task file (`rods data check`, here); worlds.outside checks an environment.

Both look for every fault, not just the first, and return a `CheckReport` whose faults name place, field and remedy.
"""
