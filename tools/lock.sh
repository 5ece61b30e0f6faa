#!/bin/sh
# Writes requirements/*.txt: every version pinned, every file hashed. Options (such as --upgrade) go to uv.
set -eu
cd "$(dirname "$0")/.."

compile() {
    output=$1
    shift
    .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
        --no-emit-index-url --no-emit-find-links --output-file "requirements/$output.txt" "$@"
}

compile dev pyproject.toml --extra operator --extra agent --extra cli --group dev "$@"
compile operator pyproject.toml --extra operator "$@"
compile agent pyproject.toml --extra agent "$@"
compile cli pyproject.toml --extra cli "$@"
compile image --group image --constraints requirements/dev.txt "$@"
