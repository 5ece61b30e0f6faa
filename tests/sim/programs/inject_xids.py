"""Reports XIDs of a GPU, one after the other: DIRECTORY UUID COUNT. Each is the time, in milliseconds."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from gpusharing import sim
from gpusharing.sim import faults

node = sim.SimNode.open(Path(sys.argv[1]))
for _ in range(int(sys.argv[3])):
    time.sleep(0.05)
    node.inject(faults.Xid(sys.argv[2], int(time.monotonic() * 1000) % 1_000_000_000))
