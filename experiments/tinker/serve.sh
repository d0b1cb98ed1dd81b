#!/bin/sh
# SkyRL's server for the Tinker API on this machine's CPU, until it is stopped: serve.sh MODEL [STATE [PORT]]
#   MODEL  a folder with weights that transformers loads
#   STATE  where it keeps checkpoints and its database, of which a later start knows
#   PYTHON=python3.12       which interpreter makes its environment, ~/.cache/rods/skyrl (2.3 GB, once)
#   TORCH_INDEX=<address>   a package index with a build of PyTorch without CUDA, of which it needs none
set -eu
here=$(dirname "$0") model=$(realpath "$1") state=$(realpath -m "${2:-runs/tinker-server}") port=${3:-8123}
python=$(cd "$here/../.." && sh bench/fixtures/environment.sh "${PYTHON:-python3}" skyrl torch "skyrl[tinker,jax]==0.3.0" uv)
# It has typing.TypedDict in its models, which pydantic takes from Python 3.12 on.
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' ||
    echo "import typing, typing_extensions; typing.TypedDict = typing_extensions.TypedDict" \
        >"$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/rods_typed.pth"
mkdir -p "$state"
export HF_HUB_OFFLINE=1 JAX_PLATFORMS=cpu UV_OFFLINE=1
# It starts its engine by the words after `uv run`, so it has to be started by uv itself.
exec "$(dirname "$python")/uv" run --no-project --python "$python" -m skyrl.tinker.api --host 127.0.0.1 --port "$port" \
    --base-model "$model" --backend jax --checkpoints-base "$state/checkpoints" \
    --database-url "sqlite:///$state/tinker.db" --backend-config \
    '{"max_lora_adapters": 3, "max_lora_rank": 8, "train_micro_batch_size": 8, "sample_max_num_sequences": 16}'
