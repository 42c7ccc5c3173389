#!/usr/bin/env bash
# What CircleMatch is for, from start to finish: use a released model, then synthesise a folder of words, train a keyword
# spotter on it, measure it, and use it. `make demo` installs what this needs.
set -euo pipefail

bin="${VENV:-.venv}/bin"
work="${DEMO:-demo}"
rm -rf "$work"

show() {
    printf '\n$ circlematch %s\n' "$*"
    "$bin/circlematch" "$@"
}

show models
show spot examples/commands.flac
show data make "$work/words"
show train --data "$work/words" --width 8 --epochs 12 --batch-size 32 --peak-learning-rate 0.02 --out "$work/run"
show evaluate --model "$work/run" --data "$work/words"
clip=$(find "$work/words/sali" -name '*.wav' | sort | head -n 1)
show spot "$clip" --model "$work/run"
