"""The walls between containers on one GPU: what a cgroup may have of its memory (R615)."""

import os
from pathlib import Path
from typing import Any, Final

import pynvml

from gpusharing.nvidia.errors import NotFoundError, SettingNotAppliedError
from gpusharing.nvidia.facts import Change
from gpusharing.nvidia.memory_walls import MemoryLimit, MemoryUse
from gpusharing.nvidia.nvml.session import Device

# Drivers give memory out in pages, the largest of 2 MiB; a limit that was rounded to one is no lie.
_PAGE: Final = 2 * 1024 * 1024


def read(gpu: Device, cgroup: Path) -> MemoryUse | None:
    question = pynvml.c_nvmlGetMemoryLimits_v1_t()
    question.nameSpace = os.fsencode(cgroup)
    try:
        gpu.ask(pynvml.nvmlDeviceGetMemoryLimits_v1, gpu.handle, question)
    except NotFoundError:
        return None
    return MemoryUse(limit=_limit(question), used=question.currentUsed)


def put(gpu: Device, cgroup: Path, limit: MemoryLimit | None) -> Change[MemoryLimit | None]:
    found = _limit_of(gpu, cgroup)
    if found == limit:
        return Change(found, found)
    wanted = pynvml.c_nvmlSetMemoryLimits_v1_t()
    wanted.nameSpace = os.fsencode(cgroup)
    wanted.softLimit = limit.guaranteed if limit else 0
    wanted.hardLimit = pynvml.NVML_DEVICE_MEMORY_LIMIT_MAX if limit is None or limit.most is None else limit.most
    gpu.change(pynvml.nvmlDeviceSetMemoryLimits_v1, gpu.handle, wanted)
    now = _limit_of(gpu, cgroup)
    if not _is_about(now, limit):
        raise SettingNotAppliedError(
            f"the driver said that it limits {cgroup} to {limit}, but it is {now}", gpu=gpu.uuid
        )
    return Change(found, now)


def _limit_of(gpu: Device, cgroup: Path) -> MemoryLimit | None:
    use = read(gpu, cgroup)
    return use.limit if use else None


def _limit(answer: Any) -> MemoryLimit:
    most = answer.hardLimit
    return MemoryLimit(guaranteed=answer.softLimit, most=None if most == pynvml.NVML_DEVICE_MEMORY_LIMIT_MAX else most)


def _is_about(now: MemoryLimit | None, wanted: MemoryLimit | None) -> bool:
    if now is None or wanted is None or now.most is None or wanted.most is None:
        return now == wanted
    return abs(now.most - wanted.most) < _PAGE and abs(now.guaranteed - wanted.guaranteed) < _PAGE
