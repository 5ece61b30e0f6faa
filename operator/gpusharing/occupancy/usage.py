"""What was measured: by agents, whose numbers Prometheus may have, and by NVIDIA's DCGM exporter."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from gpusharing.findings.finding import Finding

_MEBIBYTE: Final = 1024**2


class Name(StrEnum):
    CLAIM_MEMORY = "gpusharing_claim_memory_used_bytes"
    CLAIM_UTILIZATION = "gpusharing_claim_sm_utilization_ratio"
    GPU_MEMORY = "DCGM_FI_DEV_FB_USED"
    """In MiB."""
    GPU_UTILIZATION = "DCGM_FI_DEV_GPU_UTIL"
    """In percent."""


class Sample(NamedTuple):
    name: str
    labels: Mapping[str, str]
    value: float


class Measured(NamedTuple):
    memory: int | None = None
    """Used, in MiB."""
    utilization: float | None = None
    """From 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    gpus: Mapping[str, Measured] = field(default_factory=dict)
    """By uuid. Of others it is what their claims use together."""
    claims: Mapping[tuple[str, str], Measured] = field(default_factory=dict)
    """By the uid of the claim, and the name of its device."""
    missing: Finding | None = None
    """Why it is not known, and what to do."""


def usage_of(samples: Iterable[Sample]) -> Usage:
    """What is no such sample, or none that can be, is left out."""
    gpus: defaultdict[str, Measured] = defaultdict(Measured)
    claims: defaultdict[tuple[str, str], Measured] = defaultdict(Measured)
    for name, labels, value in samples:
        if not math.isfinite(value) or value < 0:
            continue
        claim = labels.get("claim_uid", ""), labels.get("device", "")
        # DCGM has instances of MIG beside their GPU.
        gpu = "" if labels.get("GPU_I_ID") else labels.get("UUID", "")
        match name:
            case Name.CLAIM_MEMORY if all(claim):
                claims[claim] = claims[claim]._replace(memory=int(value / _MEBIBYTE))
            case Name.CLAIM_UTILIZATION if all(claim):
                claims[claim] = claims[claim]._replace(utilization=min(value, 1.0))
            case Name.GPU_MEMORY if gpu:
                gpus[gpu] = gpus[gpu]._replace(memory=int(value))
            case Name.GPU_UTILIZATION if gpu:
                gpus[gpu] = gpus[gpu]._replace(utilization=min(value / 100, 1.0))
    return Usage(gpus=dict(gpus), claims=dict(claims))
