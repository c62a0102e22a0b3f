#!/bin/sh
# Builds the ladder into build/hopper (from anywhere), all translation units at once. Needs nvcc 13; links the static CUDA runtime.
# Prints every kernel that spills or whose wgmma the compiler serialised (notes C7508, C7510, C7514).
set -e
here=$(cd "$(dirname "$0")" && pwd); root=$(cd "$here/../../.." && pwd); out=$root/build/hopper; kernels=$root/kernels
mkdir -p "$out"
for source in "$here"/*.cu; do
    name=$(basename "$source" .cu)
    nvcc -std=c++20 -O3 -I"$kernels" -I"$here" -gencode arch=compute_90a,code=sm_90a -Xptxas -v -c "$source" -o "$out/$name.o" > "$out/$name.log" 2>&1 || { cut -c1-300 "$out/$name.log" | head -30; touch "$out/failed"; } &
done
g++ -std=c++20 -O2 -I"${CUDA_HOME:-/usr/local/cuda}/include" -c "$here/cublaslt_peer.cc" -o "$out/cublaslt_peer.o"
wait
[ ! -e "$out/failed" ] || { rm "$out/failed"; exit 1; }
grep -HE -B2 "C75(08|10|14)|[1-9][0-9]* bytes spill" "$out"/*.log | cut -c1-200 || true
nvcc -o "$out/ladder" "$out"/driver.o "$out"/instances_*.o "$out"/cublaslt_peer.o -ldl
