"""Lets a node have cgroup v2 also where this machine has version 1: a hierarchy without controllers, as those belong to
version 1. All that is missing there is what controllers do."""

import sys
from pathlib import Path

MOUNT = ("mount", "-t", "cgroup2", "none", "/sys/fs/cgroup")

_WRAPPER = """\
#!{python} -I
# runc would set what only controllers have. Which devices a container may use it lets a program in the kernel decide.
import json, os, pathlib, sys

if "create" in sys.argv:
    path = pathlib.Path(sys.argv[sys.argv.index("--bundle") + 1]) / "config.json"
    spec = json.loads(path.read_bytes())
    spec["linux"]["resources"] = {{"devices": spec["linux"]["resources"].get("devices", [])}}
    path.write_text(json.dumps(spec))
os.execv("{runc}", ["runc", *sys.argv[1:]])
"""


def without_controllers(runc: Path, directory: Path) -> Path:
    """A runc that sets no limits."""
    wrapper = directory / "runc"
    wrapper.write_text(_WRAPPER.format(python=sys.executable, runc=runc))
    wrapper.chmod(0o755)
    return wrapper
