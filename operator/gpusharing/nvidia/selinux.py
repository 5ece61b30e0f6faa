"""Labels for what containers use of the host's, on nodes with SELinux."""

import os
from pathlib import Path
from typing import Final

# Without categories: pods of any may use it. What they make themselves has their own, so others cannot open it.
_FOR_CONTAINERS: Final = b"system_u:object_r:container_file_t:s0\0"


def is_on(sysfs: Path) -> bool:
    return (sysfs / "fs/selinux/enforce").exists()


def label_for_containers(path: Path) -> None:
    """Files that are made below a directory take its label."""
    os.setxattr(path, "security.selinux", _FOR_CONTAINERS, follow_symlinks=False)
