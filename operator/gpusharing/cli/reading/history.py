"""The last day of a fleet, from Prometheus."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gpusharing.api.names import Sharing
from gpusharing.cli.reading.prometheus import Line, read_range
from gpusharing.ui.bars import STYLES
from gpusharing.ui.history import DAY, Sample
from gpusharing.ui.rows import IDLE
from gpusharing.ui.viewing import STATES

_STEP: Final = 600
IN_USE: Final = "count by (sharing) (group by (node, gpu_uuid, sharing) (gpusharing_claim_device_info))"
ALL: Final = "count(gpusharing_gpu_info)"
PROMISED: Final = "sum(gpusharing_claim_share_ratio)"
WAITING: Final = "sum(gpusharing_pending_claims)"


def read_history(url: str) -> Sequence[Sample]:
    """Raises CommandError. What Prometheus does not know of a moment is 0."""
    now = time.time()
    in_use, everything, promised, waiting = (
        read_range(url, query, start=now - DAY, end=now, step=_STEP) for query in (IN_USE, ALL, PROMISED, WAITING)
    )
    by_mode = {STYLES[mode]: _values(_of(in_use, mode)) for mode in Sharing}
    gpus, parts, pods = _values(everything), _values(promised), _values(waiting)
    return [
        _sample(at, total, {style: values.get(at, 0) for style, values in by_mode.items()}, parts, pods)
        for at, total in sorted(gpus.items())
    ]


def _sample(
    at: float, total: float, used: Mapping[str, float], parts: Mapping[float, float], pods: Mapping[float, float]
) -> Sample:
    counts = {**used, IDLE: max(total - sum(used.values()), 0)}
    return Sample(at, tuple(int(counts.get(state, 0)) for state in STATES), parts.get(at, 0.0), int(pods.get(at, 0)))


def _of(lines: Iterable[Line], mode: Sharing) -> Iterable[Line]:
    return [line for line in lines if line.labels.get("sharing") == mode.value]


def _values(lines: Iterable[Line]) -> Mapping[float, float]:
    return {at: value for line in lines for at, value in line.values.items()}
