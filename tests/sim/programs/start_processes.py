"""Starts many simulated processes on one GPU: DIRECTORY UUID FIRST_PID COUNT."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gpusharing import sim


def main() -> None:
    node = sim.SimNode.open(Path(sys.argv[1]))
    first, count = int(sys.argv[3]), int(sys.argv[4])
    for pid in range(first, first + count):
        node.start_process(sys.argv[2], pid, 1024)
    print(json.dumps(count))


main()
