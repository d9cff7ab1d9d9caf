# Sourced by the scripts beside it: a clean environment set up by the README's second command.
# That command is taken from the README, so what it promises is what runs here.
# Gives say (prints a heading) and $tests (the part of the command that runs the tests).
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null
unset PYTHONPATH VIRTUAL_ENV
export PYTHONHASHSEED=0 # the workers must collect the tests in one order
unset PYTHONDONTWRITEBYTECODE # compiled once, not by each worker and command that is started
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

say() { printf '\n== %s\n' "$*"; }

command=$(grep -E '^python3 -m venv .* && \.venv/bin/pytest$' README.md)
install=${command% && *}
tests=${command##* && }

browser=${RIDGELINE_CHROMIUM:-$(command -v chromium || command -v google-chrome || true)}
if [ -z "$browser" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  say "Installing Chromium for the browser tests"
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; } \
    >/dev/null || echo "Chromium could not be installed: the browser tests will be skipped"
fi

say "$install"
# Compiling every module of the packages takes a minute, and few are imported; Python compiles those
# itself. (pip reads PIP_NO_COMPILE=no as --no-compile.)
PIP_NO_COMPILE=no eval "$install --quiet"
