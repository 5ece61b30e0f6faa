"""Keeps the state locked until killed."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from gpusharing.sim import store

with store.locked(Path(sys.argv[1])):
    print("locked", flush=True)
    signal.pause()
