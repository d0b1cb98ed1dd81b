#!/bin/sh
# SkyRL's server for the Tinker API on this machine's CPU, at port 8123, until it is stopped: serve.sh MODEL [STATE]
#   MODEL  a folder with weights that transformers loads
#   STATE  where it keeps checkpoints and its database, of which a later start knows
set -eu
model=$(realpath "$1") state=$(realpath -m "${2:-runs/tinker-server}")
home=${RODS_CACHE:-$HOME/.cache/rods}/skyrl
mkdir -p "$state"
export HF_HUB_OFFLINE=1 JAX_PLATFORMS=cpu UV_OFFLINE=1
# It starts its engine by the words after `uv run`, so it has to be started by uv itself.
exec "$home/bin/uv" run --no-project --python "$home/bin/python" -m skyrl.tinker.api --host 127.0.0.1 --port 8123 \
    --base-model "$model" --backend jax --checkpoints-base "$state/checkpoints" \
    --database-url "sqlite:///$state/tinker.db" --backend-config \
    '{"max_lora_adapters": 3, "max_lora_rank": 8, "train_micro_batch_size": 8, "sample_max_num_sequences": 16}'
