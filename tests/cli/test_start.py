"""How long a command takes before it does something, and what it loads for that."""

import subprocess
import sys
import time

import pytest

# On a busy machine; `make bench-commands` measures it on a quiet one, with the goal of 0.3 s.
PATIENCE = 3.0


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_it_starts_soon(arguments: list[str]) -> None:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "gpusharing", *arguments], check=True, capture_output=True)
    assert time.perf_counter() - began < PATIENCE


def test_reading_a_cluster_needs_the_standard_library_only() -> None:
    code = "import gpusharing.cli.reading.cluster, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"aiohttp", "kopf", "kubernetes_asyncio", "pydantic", "structlog", "yaml", "asyncio"} & set(
        done.stdout.split()
    )
