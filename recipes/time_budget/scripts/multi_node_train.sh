#!/bin/bash
# Tutorial 001's multi_node_train.sh: multi_node_train.sh TRAIN_TIME WORKER_NUM WORLD_SIZE SAVE_NAME BATCH_SIZE [OPTION...], the same
# command for each of WORLD_SIZE workers, which find each other by MASTER_ADDR and MASTER_PORT. With a WORLD_SIZE of 1 it is
# one_node_train.sh with one worker. PROGRAMS: where lockstep and multi_node_trainer are, if not on PATH.
train_time=${1:-0.25}
worker_num=${2:-0}
world_size=${3:-1}
model_name=${4:-model}
b_sz=${5:-32}
PATH=${PROGRAMS:+$PROGRAMS:}$PATH
set -o pipefail

if [ "$world_size" -eq 1 ]; then
  start=(lockstep run --standalone --nproc-per-node 1)
else
  export MASTER_ADDR=${MASTER_ADDR:-127.0.0.1} MASTER_PORT=${MASTER_PORT:-29500} RANK=$worker_num WORLD_SIZE=$world_size
  start=()
fi
log=training_saves/$model_name.log
[ "$worker_num" -eq 0 ] || log=training_saves/$model_name.$worker_num.log
mkdir -p training_saves
"${start[@]}" "$(command -v multi_node_trainer)" \
  --train_time="$train_time" \
  --model_name="$model_name.pt" \
  --batch_size="$b_sz" \
  "${@:6}" \
  2>&1 | tee -a "$log"
