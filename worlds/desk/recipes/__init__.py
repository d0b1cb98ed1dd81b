"""Desk's HIGH-LEVEL recipes: what users of a small office ask for, as sequences of calls with flows, and its words."""

from __future__ import annotations

from worlds.desk.recipes import calendar, contacts, files, ledger, mail

RECIPES = contacts.RECIPES | mail.RECIPES | calendar.RECIPES | files.RECIPES | ledger.RECIPES
