"""What claims of the histories ask for, and the policies that offer it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from agent.histories.control_plane import Wish
from building import config, gpu_config, interval_config
from gpusharing.api.dra import AllocationConfig
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.offers import (
    ExclusiveOffer,
    Interval,
    MigOffer,
    MpsMemory,
    MpsOffer,
    MpsThreads,
    Offers,
    TimeSlicingOffer,
)


@dataclass(frozen=True)
class Kind:
    """Of claims."""

    name: str
    wishes: Sequence[Wish]
    parameters: Any = None
    """Of the claim's config."""
    refused: str | None = None
    """What Prepare says of it, whatever it got."""
    own_limit: tuple[int | None, int] | None = None
    """Of MPS, by its own config: memory in MiB and threads."""
    interval: Interval | None = None
    """By its own config, on a whole GPU."""

    @property
    def configs(self) -> tuple[AllocationConfig, ...]:
        return (config(self.parameters),) if self.parameters else ()


def _mps(**limits: Any) -> dict[str, Any]:
    return gpu_config({"strategy": "MPS", "mpsConfig": limits})


_WHOLE: Final = Wish(Sharing.EXCLUSIVE)
_SHARE: Final = Wish(Sharing.TIME_SLICING)
_SMALL: Final = Wish(Sharing.MPS, capacity={"memory": 2048, "threads": 10})
_LARGE: Final = Wish(Sharing.MPS, capacity={"memory": 8192, "threads": 40})
_MIG_CONFIG: Final = gpu_config(kind="MigDeviceConfig")


def _mig(profile: str) -> Wish:
    return Wish(Sharing.MIG, profile)


KINDS: Final = (
    Kind("whole", [_WHOLE]),
    Kind("two whole", [_WHOLE, _WHOLE]),
    Kind("whole, Long", [_WHOLE], interval_config("Long"), interval=Interval.LONG),
    Kind("whole, Default", [_WHOLE], interval_config("Default"), interval=Interval.DEFAULT),
    Kind(
        "whole, MPS",
        [_WHOLE],
        _mps(defaultPinnedDeviceMemoryLimit="4Gi", defaultActiveThreadPercentage=60),
        own_limit=(4096, 60),
    ),
    Kind("two whole, MPS", [_WHOLE, _WHOLE], _mps(), own_limit=(None, 100)),
    Kind("share", [_SHARE]),
    Kind("share, another interval", [_SHARE], interval_config("Short")),
    Kind("two shares", [_SHARE, _SHARE]),
    Kind("share, MPS", [_SHARE], _mps(), refused="sharing.strategy is MPS"),
    Kind("MPS", [_SMALL]),
    Kind("large MPS", [_LARGE]),
    Kind("two MPS", [_SMALL, _LARGE]),
    Kind("MPS, time-sliced", [_SMALL], interval_config("Short"), refused="sharing.strategy is TimeSlicing"),
    Kind("1g", [_mig("1g.10gb")]),
    Kind("2g", [_mig("2g.20gb")], _MIG_CONFIG),
    Kind("3g", [_mig("3g.40gb")]),
    Kind("two 1g", [_mig("1g.10gb"), _mig("1g.10gb")]),
    Kind("1g and share", [_mig("1g.10gb"), _SHARE]),
    Kind("admin", [Wish(Sharing.EXCLUSIVE, admin=True)]),
    Kind("admin of all", [Wish(sharing, admin=True) for sharing in Sharing]),
    Kind("share and admin", [_SHARE, Wish(Sharing.MPS, admin=True)]),
)


def _offers(**offers: Any) -> Offers:
    return Offers(exclusive=ExclusiveOffer(), **offers)


def _shares(interval: Interval) -> TimeSlicingOffer:
    return TimeSlicingOffer(max_clients=4, interval=interval)


def _clients(most: str) -> MpsOffer:
    memory = MpsMemory(default="4Gi", min="1Gi", max=most)
    return MpsOffer(max_clients=8, memory=memory, threads=MpsThreads(default=25, min=5))


_PROFILES: Final = MigOffer(profiles=("1g.10gb", "2g.20gb", "3g.40gb"))

OFFERS: Final = (
    _offers(time_slicing=_shares(Interval.MEDIUM), mps=_clients("20Gi"), mig=_PROFILES),
    _offers(time_slicing=_shares(Interval.LONG), mps=_clients("10Gi"), mig=_PROFILES),
    _offers(mps=_clients("5Gi"), mig=MigOffer(profiles=("1g.10gb",))),
    _offers(time_slicing=_shares(Interval.DEFAULT)),
    Offers(time_slicing=_shares(Interval.SHORT)),
    None,
)
"""As the operator changes its mind. None: as found."""
