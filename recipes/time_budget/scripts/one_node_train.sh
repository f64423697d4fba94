#!/bin/bash
# Tutorial 001's one_node_train.sh: one_node_train.sh TRAIN_TIME SAVE_NAME BATCH_SIZE [OPTION...], in the folder that has data/train.
# One worker where the original has one per GPU; NPROC=N for more. PROGRAMS: where lockstep and multi_node_trainer are, if not on PATH.
train_time=${1:-0.25}
model_name=${2:-model}
b_sz=${3:-64}
PATH=${PROGRAMS:+$PROGRAMS:}$PATH
set -o pipefail

mkdir -p training_saves
lockstep run --standalone --nproc-per-node "${NPROC:-1}" \
  "$(command -v multi_node_trainer)" \
  --train_time="$train_time" \
  --model_name="$model_name.pt" \
  --batch_size="$b_sz" \
  "${@:4}" \
  2>&1 | tee -a "training_saves/$model_name.log"
