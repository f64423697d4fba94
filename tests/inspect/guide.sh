#!/bin/sh
# The commands of docs/guide/inspect.md. runs.py runs them in an empty folder, with lockstep and convnet in PATH and MNIST in $DATA.
set -eu

lockstep run --standalone --nproc-per-node 2 convnet --data "$DATA" --epochs 2 --output runs/a
lockstep run --standalone --nproc-per-node 2 convnet --data "$DATA" --epochs 2 --lr 0.01 --output runs/b

lockstep checkpoint ls runs/a
lockstep checkpoint show runs/a
lockstep checkpoint verify runs/a runs/b/checkpoints/step-*
lockstep checkpoint export runs/a a.pt
lockstep checkpoint export runs/a model.pt --module model
lockstep checkpoint diff runs/a a.pt

lockstep status runs/a
lockstep status runs/a --json

lockstep report runs/a runs/b --out report.html
lockstep report runs/a runs/b --markdown

lockstep data show "$DATA" --out sheet.html
