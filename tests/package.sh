#!/bin/sh
# Builds the wheel, installs it alone into an empty environment (no torch), carries out docs/tutorial.md with it, checks
# the types of the world there as a user would, plans a launch, does what a new user does wrong (tests/first_day.py),
# and begins the demo, for a minute at most:
# `sh tests/package.sh`.
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
"$empty/venv/bin/rods" plan source/console/demo.toml --accelerate source/experiments/training/fsdp2.yaml | grep -q '^processes: 8'
# PyTorch and TRL are borrowed for it from the tools' environment: as a plain path, so none of that one's links are followed.
"$tools/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
    >"$("$empty/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/training.pth"
(cd "${tools%/.venv/bin}" && "$tools/python" -m tests.first_day "$empty/venv/bin")
# Folders of the user's that are called like rooms of the package, on the path, are nobody's business.
mkdir own
for room in buffers console daemon evaluation family prompts trainer worlds; do
    mkdir "own/$room"
    echo "raise SystemExit('a package of the user was imported')" >"own/$room/__init__.py"
done
(
    cd own
    export PYTHONPATH=.
    for program in rods rods-train rods-daemon rods-eval; do "$empty/venv/bin/$program" --help >/dev/null; done
    for program in console trainer daemon daemon.stand_ins; do "$empty/venv/bin/python" -m rods.$program --help >/dev/null; done
    printf '[policy]\nkind = "simulated"\n[training]\nsteps = 4\n' >small.toml
    "$empty/venv/bin/rods" up run --config small.toml --json | grep -q '"event": *"progress"'
    "$empty/venv/bin/rods" verify run | grep -q 'everything agrees'
)
RODS_CACHE=$empty/cache timeout --signal INT 60 "$empty/venv/bin/python" -m rods.console.demo || [ $? = 124 ]
"$empty/venv/bin/rods" status runs/demo --json | "$tools/python" -c 'import json, sys; assert json.load(sys.stdin)["step"]'
[ ! -e "$empty/cache" ] # the weights that come with the package were taken
