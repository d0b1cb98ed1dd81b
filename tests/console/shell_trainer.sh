#!/bin/sh
# Plays the trainer of a run with nothing but a shell: `rods merge` opens an epoch and prints its tasks, `rods observe`
# takes what the rollouts of a step earned. Usage: shell_trainer.sh RUN EPOCHS. The "policy" resolves one turn of two in
# every other rollout, so each task lies at the boundary.
set -eu
run=$1 epochs=$2 step=0
rods() { "${PYTHON:-python3}" -m console "$@"; }

epoch=0
while [ "$epoch" -lt "$epochs" ]; do
    step=$((step + 1))
    rods merge "$run" --epoch "$epoch" 2>/dev/null |
        sed -n 's/^{"role":"\([a-z]*\)","task":{"id":"\([0-9a-f]*\)".*/\1 \2/p' |
        while read -r role task; do
            printf '{"task":"%s","role":"%s","rollouts":[' "$task" "$role"
            printf '{"resolved":2,"expected":2},{"resolved":0,"expected":2},{"resolved":1,"expected":2}]}\n'
        done >"$run.step"
    printf '{"end_step":%s}\n' "$step" >>"$run.step"
    rods observe "$run" <"$run.step"
    epoch=$((epoch + 1))
done
rm -f "$run.step"
