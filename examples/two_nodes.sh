#!/bin/sh
# Two nodes of two workers each on one machine: prints a line for each worker.
set -eu
node() {
  lockstep run --nnodes 2 --node-rank "$1" --nproc-per-node 2 --rdzv-endpoint 127.0.0.1:29400 --rdzv-id try \
    sh -c 'echo "rank $RANK of $WORLD_SIZE on node $GROUP_RANK"'
}
node 0 &
node 1
wait $!
