"""Ends a build from a checkout without symbolic links: the package would lack its rooms.

All else of the build stands in pyproject.toml."""

import runpy

from setuptools import setup

runpy.run_path("rods/__init__.py")  # raises ImportError there, with the remedy
setup()
