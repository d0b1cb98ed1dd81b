"""Desk: a small office world of our own, for demonstrations, tests and docs (contacts, mail, calendar, files, ledger)."""

from __future__ import annotations

from rods.environments.desk.world import Desk


def environment() -> Desk:
    return Desk()
