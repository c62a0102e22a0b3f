#!/usr/bin/env bash
# Measures what the README says about this machine, and puts the tables into it.
#
#   scripts/measure_cpu.sh [MODEL.safetensors]
#
# Writes results/cpu/bench_1_thread.csv, bench_N_threads.csv, accuracy.csv, ceilings.json and, with a model, evaluate.csv.
# About five minutes on two cores. Leave the machine alone meanwhile.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

program=build/release/bin/scalegemm
model=${1-build/models/all-minilm-l6-v2.safetensors}
threads=$(nproc)
[[ -x $program ]] || { echo "error: $program is missing; run ./quickstart first" >&2; exit 1; }

mkdir -p results/cpu
"$program" info --ceilings --json results/cpu/ceilings.json
"$program" accuracy --csv results/cpu/accuracy.csv >/dev/null
for count in 1 "$threads"; do
  name=bench_${count}_thread$([[ $count == 1 ]] || echo s)
  "$program" bench --suite bench/suites/cpu12.csv --scheme all --threads "$count" --budget 0.3 --progress \
    --csv "results/cpu/$name.csv" ||
    echo "note: some rows were refused (4-bit codes need an even K); each says why"
done
if [[ -f $model ]]; then
  "$program" evaluate "$model" --schemes all --m 1,16,128 --csv results/cpu/evaluate.csv
fi
python3 scripts/readme_table.py
