#!/usr/bin/env bash
# Installs dllint from the checkout of the action, lints, and leaves annotations, a SARIF file and a summary.
# Always exits with 0 once dllint has run: its exit code is an output, so that the SARIF file is uploaded first.
set -euo pipefail

read -ra paths <<<"${DLLINT_PATHS:-.}"
read -ra options <<<"${DLLINT_ARGUMENTS:-}"
reports=$(mktemp -d "${RUNNER_TEMP:-/tmp}/dllint.XXXXXX")

python3 -m venv "$reports/venv"
"$reports/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$GITHUB_ACTION_PATH"

changed=${DLLINT_CHANGED:-auto}
base=${DLLINT_BASE:-}
if [ "$changed" = true ] && [ -z "$base" ]; then
    base=HEAD~1 # a push: what its last commit brings
fi
if [ "$changed" != false ] && [ -n "$base" ]; then
    # The checkout of a pull request is shallow: without the commits in between nothing can be compared.
    if [ -f "$(git rev-parse --git-dir)/shallow" ]; then
        git fetch --quiet --unshallow origin || git fetch --quiet --depth=1000 origin "$base"
    fi
    options+=(--since "$base")
fi

code=0
"$reports/venv/bin/dllint" check "${paths[@]}" ${options[@]+"${options[@]}"} --output-format github \
    --output "sarif:$reports/dllint.sarif" --output "markdown:$reports/summary.md" || code=$?

if [ -f "$reports/summary.md" ]; then
    cat "$reports/summary.md" >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
fi
{
    echo "exit-code=$code"
    if [ -f "$reports/dllint.sarif" ]; then echo "sarif=$reports/dllint.sarif"; fi
} >>"${GITHUB_OUTPUT:-/dev/stdout}"
