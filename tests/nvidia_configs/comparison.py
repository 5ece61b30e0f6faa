"""What our driver and NVIDIA's make of the same opaque parameters, and where they are meant to differ."""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pydantic

from gpusharing.api import nvidia, strict_json
from gpusharing.api.dra import AllocationConfig, AllocationResult
from gpusharing.api.sharing.offers import Interval, Offers
from gpusharing.core.claims import settings
from gpusharing.core.claims.settings import ClaimedGpus
from nvidia_configs.generator import GPUS

_CLAIMED: Final[ClaimedGpus] = [
    (AllocationResult(request=f"gpu-{slot}", driver="gpu.nvidia.com", pool="n", device=f"gpu-{slot}"), uuid)
    for slot, uuid in enumerate(GPUS)
]
_INSTANCE: Final = AllocationResult(request="mig", driver="gpu.nvidia.com", pool="n", device="gpu-0-mig-1g10gb-19-0")
_CONFIG: Final = pydantic.TypeAdapter(AllocationConfig)
_NUMBERS: Final = tuple(Interval)


@dataclass(frozen=True, slots=True)
class Answer:
    refusal: str = ""
    """Empty: it is taken."""
    interval: int | None = None
    threads: int | None = None
    memory: Mapping[str, str] = field(default_factory=dict)
    """By the uuid of each GPU that has a limit, as MPS is told it."""

    @property
    def is_taken(self) -> bool:
        return not self.refusal


@dataclass(frozen=True, slots=True)
class Difference:
    text: str
    ours: Answer
    theirs: Answer

    @property
    def reason(self) -> str | None:
        """Why it is meant."""
        parameters = strict_json.loads(self.text)
        return next((reason for reason, holds in MEANT.items() if holds(self, parameters)), None)

    def __str__(self) -> str:
        return f"{self.text}\n  NVIDIA: {self.theirs}\n  ours:   {self.ours}"


def differences(texts: Sequence[str], program: Path) -> list[Difference]:
    compared = (
        (text, our_answer(text), theirs) for text, theirs in zip(texts, their_answers(texts, program), strict=True)
    )
    return [Difference(text, ours, theirs) for text, ours, theirs in compared if not _are_same(ours, theirs)]


def their_answers(texts: Sequence[str], program: Path) -> list[Answer]:
    run = subprocess.run(
        [program, *GPUS], input="".join(f"{text}\n" for text in texts), capture_output=True, text=True, check=True
    )
    return [_their_answer(json.loads(line)) for line in run.stdout.splitlines()]


def _their_answer(told: Mapping[str, Any]) -> Answer:
    if problem := told.get("panic"):
        return Answer(refusal=f"{_PANIC}{problem}")
    return Answer(
        refusal=told.get("refusal", ""),
        interval=told.get("interval"),
        threads=told.get("threads"),
        memory=told.get("memory") or {},
    )


def our_answer(text: str) -> Answer:
    parameters = strict_json.loads(text)
    try:
        config = nvidia.decode(parameters)
        allocated = _CONFIG.validate_python(
            {"source": "FromClaim", "opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}
        )
        if isinstance(config, nvidia.MigDeviceConfig):
            settings.resolve(_INSTANCE, [allocated], Offers(), None)
            return Answer()
        resolved = {
            uuid: settings.resolve(result, [allocated], Offers(), None, gpus=_CLAIMED) for result, uuid in _CLAIMED
        }
    except (nvidia.InvalidConfigError, settings.SettingsError) as error:
        return Answer(refusal=str(error))
    first = resolved[GPUS[0]]
    return Answer(
        interval=None if first.interval is None else _NUMBERS.index(first.interval),
        threads=first.mps.threads if first.mps else None,
        memory={uuid: f"{one.mps.memory}M" for uuid, one in resolved.items() if one.mps and one.mps.memory},
    )


def _are_same(ours: Answer, theirs: Answer) -> bool:
    if ours.is_taken != theirs.is_taken:
        return False
    if not ours.is_taken:
        return True
    # What is not said is left to MPS there, and said as what it comes to here.
    threads = 100 if theirs.threads is None and ours.threads is not None else theirs.threads
    return (ours.interval, ours.threads, ours.memory) == (theirs.interval, threads, theirs.memory)


_PANIC: Final = "panic: "


def _sharing(parameters: Any) -> Mapping[str, Any]:
    sharing = parameters.get("sharing") if isinstance(parameters, dict) else None
    return sharing if isinstance(sharing, dict) else {}


def _mps(parameters: Any) -> Mapping[str, Any]:
    config = _sharing(parameters).get("mpsConfig")
    return config if isinstance(config, dict) else {}


def _names_a_gpu_twice(parameters: Any) -> bool:
    each = _mps(parameters).get("defaultPerDevicePinnedMemoryLimit")
    named = [
        GPUS[int(key)] if key.strip().lstrip("+-").isdecimal() and int(key) < len(GPUS) else key for key in each or ()
    ]
    return len(set(named)) < len(named)


MEANT: Final[Mapping[str, Callable[[Difference, Any], bool]]] = {
    "their driver ends with a nil pointer without an interval; here it is Default": lambda found, _: (
        found.theirs.refusal.startswith(_PANIC) and found.ours.interval == 0
    ),
    "GPUs are not passed through to virtual machines here": lambda found, parameters: (
        found.theirs.is_taken and parameters.get("kind") == "VfioDeviceConfig"
    ),
    "MIG instances are not shared by MPS here": lambda found, parameters: (
        found.theirs.is_taken
        and parameters.get("kind") == "MigDeviceConfig"
        and _sharing(parameters).get("strategy") == "MPS"
    ),
    "2^63 bytes and more wrap round there; no GPU has that, so it is refused here": lambda found, _: (
        found.theirs.is_taken and "and less than" in found.ours.refusal
    ),
    "which of two limits for one GPU counts is left to chance there": lambda found, parameters: (
        found.theirs.is_taken and found.ours.is_taken and _names_a_gpu_twice(parameters)
    ),
    "0 % of the threads would let no client run: here it is no limit": lambda found, _: (
        found.theirs.threads == 0 and found.ours.threads == 100
    ),
}
