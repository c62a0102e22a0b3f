# Shared by ./quickstart and ./check (sourced, not run): installs what is missing, or says what it is.
# Works on Debian 12, Ubuntu 24.04 and their relatives; elsewhere it names the tools and stops.

# What the build needs, as Debian and Ubuntu call it.
BUILD_PACKAGES=(ca-certificates ccache cmake g++ git libcli11-dev libfmt-dev libgtest-dev
  libtomlplusplus-dev libxxhash-dev ninja-build nlohmann-json3-dev python3 python3-dev python3-pip python3-venv)
# What ./check needs besides.
LINT_PACKAGES=(clang-tidy)

# The same things by a file or command that shows they are there, for systems without dpkg.
BUILD_COMMANDS=(cmake g++ git ninja python3)
LINT_COMMANDS=(clang-tidy)

say() {
  printf '%s\n' "$*"
}

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# missing_packages PACKAGE...: prints those that dpkg does not report as installed.
missing_packages() {
  local package
  for package in "$@"; do
    if [[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]]; then
      printf '%s ' "$package"
    fi
  done
}

# missing_commands COMMAND...: prints those that are not on PATH.
missing_commands() {
  local name
  for name in "$@"; do
    command -v "$name" >/dev/null || printf '%s ' "$name"
  done
}

# How to become root: nothing for root itself, sudo when it can be used, else empty output and failure.
# Without a terminal sudo must not ask for a password.
root_prefix() {
  if [[ $EUID -eq 0 ]]; then
    return 0
  fi
  command -v sudo >/dev/null || return 1
  if [[ -t 0 ]]; then
    printf 'sudo'
  else
    sudo -n true 2>/dev/null && printf 'sudo -n'
  fi
}

# install_packages LOG PACKAGE...: apt-get, with its output in LOG.
install_packages() {
  local log=$1 prefix
  shift
  if ! prefix=$(root_prefix); then
    die "these packages are missing and only root can install them. Run as root:
  apt-get update && apt-get install -y --no-install-recommends $*"
  fi
  say "Installing $# system packages: $*"
  # shellcheck disable=SC2086  # the prefix is one or two words, or none
  if ! $prefix env DEBIAN_FRONTEND=noninteractive sh -c '
      apt-get update && apt-get install -y --no-install-recommends "$@"' sh "$@" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    die "apt-get could not install: $* (whole output in $log)"
  fi
}

# require_packages LOG_FOLDER PACKAGE... -- COMMAND...: all there afterwards, or the script ends.
require_packages() {
  local folder=$1 packages=() missing
  shift
  while [[ $# -gt 0 && $1 != -- ]]; do
    packages+=("$1")
    shift
  done
  shift
  if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
    missing=$(missing_packages "${packages[@]}")
    if [[ -n $missing ]]; then
      # shellcheck disable=SC2086  # a list of words
      install_packages "$folder/apt.log" $missing
    fi
  fi
  missing=$(missing_commands "$@")
  if [[ -n $missing ]]; then
    die "not found: $missing
This system has no apt-get (or an own PATH hides them). What is needed, by its Debian name:
  ${packages[*]}"
  fi
}

# require_venv: .venv exists and has a working pip.
require_venv() {
  if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
    say "Creating the Python environment .venv"
    python3 -m venv --clear .venv || die "python3 -m venv failed; on Debian and Ubuntu install python3-venv"
  fi
}

# require_python_packages: .venv holds exactly what scripts/requirements.txt asks for.
require_python_packages() {
  require_venv
  local wanted
  wanted=$(sha256sum <scripts/requirements.txt)
  if [[ "$(cat .venv/requirements.sha256 2>/dev/null)" != "$wanted" ]]; then
    say "Installing Python packages into .venv: $(grep -v '^#' scripts/requirements.txt | tr '\n' ' ')"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --requirement scripts/requirements.txt ||
      die "pip could not install scripts/requirements.txt into .venv"
    printf '%s\n' "$wanted" >.venv/requirements.sha256
  fi
}

# The compiler cache serves clones in other folders too when paths are relative to the repository.
use_ccache() {
  if command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
    export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  fi
}
