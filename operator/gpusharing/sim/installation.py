"""A simulated node on a machine that lives longer than whoever asks for it: made once, rebooted with the machine."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from gpusharing.sim.errors import SimError
from gpusharing.sim.node import SimNode, create

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Written last: without it, nobody came to the end.
_NOTE = "installed"


def install(directory: Path, gpus: str, *, seed: str, cdi_dir: Path, boot_id_file: Path = _BOOT_ID) -> SimNode:
    """The node of these GPUs in `directory`, with its CDI spec where container runtimes look. May be repeated."""
    boot_id = boot_id_file.read_text().strip()
    note = directory / _NOTE
    if note.exists():
        node = _found(directory, gpus, boot_id)
    else:
        _empty(directory)
        node = create(directory, gpus, seed=seed)
        _lead_to_control_groups(node)
    for spec in node.cdi.iterdir():
        _copy(spec, cdi_dir / spec.name)
    _write(note, json.dumps({"gpus": gpus, "bootId": boot_id}))
    return node


def _lead_to_control_groups(node: SimNode) -> None:
    """The machine's: only what leaves the agent's control group outlives the agent's container, such as MPS daemons."""
    link = node.sys / "fs" / "cgroup"
    link.parent.mkdir()
    link.symlink_to("/sys/fs/cgroup")


def _found(directory: Path, gpus: str, boot_id: str) -> SimNode:
    noted = json.loads((directory / _NOTE).read_text())
    if noted["gpus"] != gpus:
        raise SimError(
            f"{directory} has the simulated GPUs {noted['gpus']}, not {gpus}: to change them, delete all pods that use "
            "GPUs of this node, and then the directory"
        )
    try:
        node = SimNode.open(directory)
    except SimError as error:
        raise SimError(
            f"{error}: delete all pods that use GPUs of this node, and then the directory {directory}"
        ) from error
    if noted["bootId"] != boot_id:
        node.reboot()
    return node


def _empty(directory: Path) -> None:
    """Of what an earlier attempt may have left. The directory itself may be a mount."""
    for left in directory.iterdir() if directory.is_dir() else ():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()


def _copy(source: Path, target: Path) -> None:
    if not target.exists() or target.read_bytes() != source.read_bytes():
        _write(target, source.read_text())


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Container runtimes read every *.json as soon as it appears.
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.write_text(text)
    unfinished.rename(path)
