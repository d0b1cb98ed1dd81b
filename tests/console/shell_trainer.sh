#!/bin/sh
# Plays the trainer of a run with nothing but a shell: `rods trainer merge` opens an epoch and prints its tasks, `rods trainer observe`
# takes what the rollouts of a step earned. Usage: shell_trainer.sh RUN EPOCHS. The "policy" resolves all turns, none and
# one of them in turn, so each task lies at the boundary.
set -eu
run=$1 epochs=$2 step=0
rods() { "${PYTHON:-python3}" -m rods.console "$@"; }

epoch=0
while [ "$epoch" -lt "$epochs" ]; do
    step=$((step + 1))
    # A line of `rods trainer merge` is {"role":…,"task":{"id":…,…,"user":{"script":["…","…"]},"goal":…}}.
    rods trainer merge "$run" --epoch "$epoch" 2>/dev/null |
        sed -n 's/^{"role":"\([a-z]*\)","task":{"id":"\([0-9a-f]*\)".*"user":{"script":\["\(.*\)"\]},"goal":.*/\1","\2","\3/p' |
        awk -F '","' '{
            turns = NF - 2
            printf "{\"task\":\"%s\",\"role\":\"%s\",\"rollouts\":[", $2, $1
            printf "{\"resolved\":%d,\"expected\":%d},", turns, turns
            printf "{\"resolved\":0,\"expected\":%d},{\"resolved\":1,\"expected\":%d}]}\n", turns, turns
        }' >"$run.step"
    printf '{"end_step":%s}\n' "$step" >>"$run.step"
    rods trainer observe "$run" <"$run.step"
    epoch=$((epoch + 1))
done
rm -f "$run.step"
