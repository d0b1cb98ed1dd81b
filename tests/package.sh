#!/bin/sh
# Builds the wheel, installs it alone into an empty environment (no torch), carries out docs/tutorial.md with it, and
# checks the types of the world there as a user would: `sh tests/package.sh`.
set -eu
cd "$(dirname "$0")/.."
tools=$PWD/.venv/bin
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
mkdir "$empty/source"
git ls-files -z | xargs -0 tar -c | tar -x -C "$empty/source"
"$tools/python" -m pip --disable-pip-version-check wheel -qq --no-deps --wheel-dir "$empty" "$empty/source"
"$tools/python" -m venv "$empty/venv"
"$empty/venv/bin/python" -m pip --disable-pip-version-check install -qq --constraint constraints.txt "$empty"/*.whl
"$tools/python" -m tests.tutorial "$empty/venv/bin"
cd "$empty"
"$empty/venv/bin/rods" init typed
"$tools/mypy" --strict --config-file= --cache-dir "$empty/types" --python-executable "$empty/venv/bin/python" typed/world.py
