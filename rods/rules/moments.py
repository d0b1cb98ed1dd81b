"""Moments of the groups in a task's window: exact where rewards are counts, rounded to 12 decimals (DESIGN §5.2)."""

from __future__ import annotations

import math

DIGITS = 12
# A group: its step, its valid rollouts, the sum and the squares of their rewards × scale, and this scale.
Entry = tuple[int, int, float, float, int]


def mean(entries: list[Entry]) -> float:
    """Over all rollouts of `entries`; 0 for none."""
    if not entries:
        return 0.0
    scale = entries[0][4]
    valid = sum(entry[1] for entry in entries)
    if all(entry[4] == scale for entry in entries):
        return round(math.fsum(entry[2] for entry in entries) / (valid * scale), DIGITS)
    return round(math.fsum(entry[2] / entry[4] for entry in entries) / valid, DIGITS)


def variance(entries: list[Entry]) -> float:
    """The population variance inside each group, averaged over groups; 0 for none."""
    if not entries:
        return 0.0
    inside = [(valid * squares - total * total) / (valid * scale) ** 2 for _, valid, total, squares, scale in entries]
    return max(0.0, round(math.fsum(inside) / len(inside), DIGITS))


def pooled(entries: list[Entry]) -> float:
    """The population variance over all rollouts of all groups; 0 for none."""
    if not entries:
        return 0.0
    valid = sum(entry[1] for entry in entries)
    scale = math.lcm(*(entry[4] for entry in entries))
    total = math.fsum(entry[2] * (scale // entry[4]) for entry in entries)
    squares = math.fsum(entry[3] * (scale // entry[4]) ** 2 for entry in entries)
    return max(0.0, round((valid * squares - total * total) / (valid * scale) ** 2, DIGITS))
