"""Programs that come from the distribution."""

import os
import shutil
import subprocess
from pathlib import Path

from harness.cache import one_at_a_time
from harness.progress import PROGRESS


class MissingProgramError(Exception):
    pass


def system_program(name: str, *, package: str) -> Path:
    """Where a program is; root on Debian gets it installed. `package` may be several."""
    found = _find(name)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        with one_at_a_time():
            found = _find(name) or _installed(name, package)
    if found is None:
        raise MissingProgramError(f"the program {name} is missing: install the package {package}")
    return found


def _find(name: str) -> Path | None:
    # Users have no sbin in their PATH on Debian.
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    return Path(found) if found else None


def _installed(name: str, package: str) -> Path | None:
    PROGRESS.say(f"Installing {package}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", *package.split()]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise MissingProgramError(f"{' '.join(command)} failed:\n{done.stderr}")
    return _find(name)
