#!/bin/sh
# Builds a source archive and a wheel from it, which equals the one from the tree (a checkout without symbolic links is
# refused), installs the wheel alone into an empty environment (no torch), carries out docs/tutorial.md with it, checks
# the types of the world there as a user would, plans a launch, does what a new user does wrong (tests/first_day.py),
# begins the demo, for a minute at most, and installs the tree itself, editable: `sh tests/package.sh`.
set -eu
cd "$(dirname "$0")/.."
tools=$PWD/.venv/bin
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
mkdir "$empty/source" "$empty/tree"
git ls-files -z | xargs -0 tar -c | tar -x -C "$empty/source"
"$tools/python" -m pip --disable-pip-version-check install -qq --target "$empty/setuptools" 'setuptools>=77'
build() { # ARGUMENTS of pip, which finds setuptools there
    PYTHONPATH=$empty/setuptools "$tools/python" -m pip --disable-pip-version-check "$@" -qq --no-deps --no-build-isolation
}
(
    cd "$empty/source"
    git init -q && git add .
    git -c user.name=tests -c user.email=tests@localhost commit -qm all
    git clone -qc core.symlinks=false . ../unlinked
    PYTHONPATH=$empty/setuptools "$tools/python" -c 'import sys, setuptools.build_meta as build
folder = sys.argv[1]
build.build_sdist(folder)
build.build_wheel(folder + "/tree")' "$empty" >"$empty/built" 2>&1 || { cat "$empty/built" >&2; exit 1; }
)
build wheel --wheel-dir "$empty" "$empty"/rods_rl-*.tar.gz
"$tools/python" - "$empty"/*.whl "$empty"/tree/*.whl <<'END'
import sys, zipfile
archived, tree = ({each.filename: each.CRC for each in zipfile.ZipFile(name).infolist()} for name in sys.argv[1:])
assert archived == tree, sorted(set(archived.items()) ^ set(tree.items()))
END
if build wheel --wheel-dir "$empty/unlinked" "$empty/unlinked" >"$empty/refusal" 2>&1; then
    echo "package: a wheel was built from a checkout without symbolic links" >&2
    exit 1
fi
grep -q 'git config core.symlinks true; git checkout -- rods' "$empty/refusal"
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
    "$empty/venv/bin/python" -c 'import daemon' 2>&1 | grep -q '^a package of the user was imported$'
    for program in rods rods-train rods-daemon rods-eval; do "$empty/venv/bin/$program" --help >/dev/null; done
    for program in console trainer daemon daemon.stand_ins; do "$empty/venv/bin/python" -m rods.$program --help >/dev/null; done
    printf '[policy]\nkind = "simulated"\n[training]\nsteps = 4\n' >small.toml
    "$empty/venv/bin/rods" up run --config small.toml --json | grep -q '"event": *"progress"'
    "$empty/venv/bin/rods" verify run | grep -q 'everything agrees'
)
RODS_CACHE=$empty/cache timeout --signal INT 60 "$empty/venv/bin/rods" up runs/demo --config source/console/demo.toml || [ $? = 124 ]
"$empty/venv/bin/rods" status runs/demo --json | "$tools/python" -c 'import json, sys; assert json.load(sys.stdin)["step"]'
[ ! -e "$empty/cache" ] # the weights that come with the package were taken
# The tree itself, editable: the rooms are those of the tree, and have one name there.
rm "$empty"/venv/lib/python*/site-packages/training.pth # pip would see the tools' own RODS by it
build --python "$empty/venv/bin/python" install --force-reinstall --editable "$empty/source"
"$empty/venv/bin/python" -c 'import rods.daemon; print(rods.daemon.__file__)' | grep -q "^$empty/source/rods/daemon/"
cd "$empty/source"
"$empty/venv/bin/python" -c 'import trainer.policy' 2>&1 | grep -q 'trainer is rods.trainer'
