#!/bin/sh
# Writes requirements/*.txt: every version pinned, every file hashed. Options (such as --upgrade) go to uv.
set -eu
cd "$(dirname "$0")/.."

compile() {
    output=$1
    shift
    .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
        --no-emit-index-url --no-emit-find-links pyproject.toml --output-file "requirements/$output.txt" "$@"
}

compile dev --extra operator --extra agent --group dev "$@"
compile operator --extra operator "$@"
compile agent --extra agent "$@"
