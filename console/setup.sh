#!/bin/sh
# Makes .venv and installs RODS into it: `sh console/setup.sh demo` (core, trainer) or `dev` (tests and linters too).
# Says what it will download before it does. Does nothing when pyproject.toml and constraints.txt are unchanged.
set -eu
wanted=${1:-demo}
cd "$(dirname "$0")/.."
oldest=11 newest=14 # Python 3.x for which torch 2.13 has wheels
venv=.venv
stamp=$venv/rods-setup

fail() {
    echo "setup: $1" >&2
    exit 2
}

[ "$(uname -s)" = Linux ] || fail "RODS runs on Linux (its logs need fdatasync, its programs /proc). On a Mac or on \
Windows: start the same command in a Linux container or in WSL."

[ -d rods/prompts ] || fail "rods/prompts and the other rooms in rods/ are not folders: this is a checkout without \
symbolic links. Run: git config core.symlinks true; git checkout -- rods (on Windows: in WSL, with a clone made there)."

case $wanted in
    demo) extras=train ;;
    dev) extras=train,mcp,tau2,search,ray,dev ;;
    *) fail "unknown set '$wanted': use demo or dev" ;;
esac

key=$(cat pyproject.toml constraints.txt console/setup.sh | cksum | tr ' ' -)
if [ -f $stamp ] && $venv/bin/python -c '' 2>/dev/null; then
    read -r known installed <"$stamp"
    if [ "$known" = "$key" ] && { [ "$installed" = "$wanted" ] || [ "$installed" = dev ]; }; then exit 0; fi
    if [ "$installed" = dev ]; then wanted=dev extras=train,mcp,tau2,search,ray,dev; fi # never shrink
fi

minor() { "$1" -c 'import sys; print(sys.version_info[1] if sys.version_info[0] == 3 else 0)' 2>/dev/null || echo 0; }

find_python() {
    found=
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
        version=$(minor "$candidate")
        [ "$version" -gt 0 ] && found="$found $candidate=3.$version"
        if [ "$version" -ge $oldest ] && [ "$version" -le $newest ]; then
            python=$candidate
            return
        fi
    done
    fail "no Python 3.$oldest to 3.$newest (found:${found:- none}): PyTorch 2.13 has wheels for these only. \
Install one and add PYTHON=python3.12 to the same command."
}

if ! $venv/bin/python -c '' 2>/dev/null; then
    find_python
    "$python" -c 'import ensurepip, venv' 2>/dev/null || fail "$python has no venv module. \
On Debian or Ubuntu: apt-get install python3-venv; then run the same command again."
    new=yes
else
    python=$venv/bin/python new=no
fi

torch=$(grep '^torch==' constraints.txt)
echo "Setting up $venv (once; later runs start at once). Downloads that are not in pip's cache already:"
if [ -n "${TORCH_INDEX:-}" ]; then
    echo "  PyTorch ($torch) from $TORCH_INDEX: about 200 MB for a CPU build"
else
    echo "  PyTorch ($torch): usually the CUDA build, about 3 GB. For a CPU build of about 200 MB stop here, take its"
    echo "    index address from pytorch.org/get-started and add TORCH_INDEX=<address> to the same command"
fi
echo "  TRL, transformers, numpy and what they need: about 150 MB"
[ "$extras" = train ] || echo "  pytest, mypy, ruff and other tools: about 30 MB"

[ $new = no ] || "$python" -m venv --clear $venv
quiet=-qq
[ -t 1 ] && quiet=
# Python compiles what it imports, once; compiling everything here would take half a minute more.
install() { $venv/bin/python -m pip --disable-pip-version-check install --no-compile "$@" $quiet; }

if ! $venv/bin/python -c "import importlib.metadata as m; v = m.version('torch').split('+')[0]; \
raise SystemExit('torch==' + v != '$torch')" 2>/dev/null; then
    install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$torch" || fail "PyTorch could not be installed (pip says why \
above). No network or index: set pip's index; no wheel for this machine: see pytorch.org/get-started for one."
fi
install --constraint constraints.txt --editable ".[$extras]" || fail "the packages could not be installed \
(pip says why above). Mend that and run the same command again: it goes on where it stopped."
echo "$key $wanted" >$stamp
