"""Opaque parameters at random: mostly near to what NVIDIA's driver takes, and written in unusual ways."""

import json
import random
from typing import Any, Final

GPUS: Final = ("GPU-aaaa", "GPU-bbbb")
"""Those that each claim has, in the order of their uuids."""

_QUANTITIES: Final[tuple[Any, ...]] = (
    *("8Gi", "1Gi", "512Mi", "1Mi", "1048576", "1.5Gi", ".5Gi", "5.Gi", "08Gi", "+8Gi", " 8Gi", "8Gi ", "1e9", "1E9"),
    *("1e+9", "10G", "1Ti", "100000000000m", "1048576.9", 1048576, 2**33, 3e9),
    *("0", "1", "-1Gi", "0.5Mi", "1023Ki", "1k", "100m", "1n", "1u", "e9", "1e-3", 0, 8, -5, 1.5),
    *("9E", "9Ei", "1Ei", "1e30", "1e1000", "9" * 21, "9" * 29, 10**30, 1e300),
    *(
        "",
        "much",
        "8 Gi",
        "8GiB",
        "10g",
        "1K",
        "1e",
        "1e6.5",
        "0x10",
        "1_0",
        "1,5Gi",
        "Infinity",
        "NaN",
        "+",
        "--1",
        "Gi",
        ".",
        "-",
        "+.k",
        "1..2",
    ),
    *("٣Gi", "8Mi\n", "\t8Gi", True, None, [], {}),
)
_THREADS: Final[tuple[Any, ...]] = (0, 1, 50, 99, 100, 101, -1, 10**20, None, True, "50", "", 50.0, 50.5, 1e5, [], {})
_INTERVALS: Final = ("Default", "Short", "Medium", "Long")
_OTHER_INTERVALS: Final[tuple[Any, ...]] = ("long", "LONG", "", " Long", "Long ", None, 0, 1, True, [], {})
_STRATEGIES: Final = ("TimeSlicing", "MPS")
_OTHER_STRATEGIES: Final[tuple[Any, ...]] = ("timeslicing", "Mps", "", "None", "MIG", None, 1, True, [], {})
_KINDS: Final = ("GpuConfig", "GpuConfig", "MigDeviceConfig")
_OTHER_KINDS: Final[tuple[Any, ...]] = (
    "gpuConfig",
    "VfioDeviceConfig",
    "ComputeDomainChannelConfig",
    "",
    "Foo",
    None,
    1,
)
_VERSION: Final = "resource.nvidia.com/v1beta1"
_OTHER_VERSIONS: Final[tuple[Any, ...]] = (
    "resource.nvidia.com/v1",
    "v1",
    "",
    "resource.nvidia.com/V1beta1",
    f"{_VERSION} ",
    None,
    1,
)
_BOOLEANS: Final[tuple[Any, ...]] = (True, False, None, "true", 1, 0, [], {})
_NO_OBJECTS: Final[tuple[Any, ...]] = (None, [], "x", 1, {}, True)
_DEVICES: Final = (*GPUS, "0", "1", "2", "+1", "00", "-0", "-1", " 0", "0_0", "", "x", "GPU-cccc")
_STRANGE_FIELDS: Final = ("extra", "Interval", "interval ", "Strategy", "metadata", "status", "sharing", "strategy")


class Configs:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311

    def text(self) -> str:
        """One line of JSON."""
        config = self._config()
        text = json.dumps(config, ensure_ascii=self._is_so(0.5))
        if isinstance(config, dict) and config and self._is_so(0.03):
            field = self._one_of(tuple(config))
            repeated = self._one_of((config[field], None, 1))
            text = f"{{{json.dumps(field)}:{json.dumps(repeated)},{text[1:]}"
        return text

    def _config(self) -> Any:
        if self._is_so(0.01):
            return self._one_of(_NO_OBJECTS)
        config: dict[str, Any] = {}
        kind = self._one_of(_KINDS)
        if self._is_so(0.98):
            config["apiVersion"] = _VERSION if self._is_so(0.95) else self._one_of(_OTHER_VERSIONS)
        if self._is_so(0.98):
            config["kind"] = kind if self._is_so(0.95) else self._one_of(_OTHER_KINDS)
        if self._is_so(0.9):
            config["sharing"] = self._sharing() if self._is_so(0.95) else self._one_of(_NO_OBJECTS)
        return self._with_noise(config)

    def _sharing(self) -> dict[str, Any]:
        sharing: dict[str, Any] = {}
        if self._is_so(0.95):
            sharing["strategy"] = self._one_of(_STRATEGIES if self._is_so(0.9) else _OTHER_STRATEGIES)
        strategy = sharing.get("strategy")
        if self._is_so(0.7 if strategy == "TimeSlicing" else 0.08):
            sharing["timeSlicingConfig"] = self._time_slicing() if self._is_so(0.9) else self._one_of(_NO_OBJECTS)
        if self._is_so(0.8 if strategy == "MPS" else 0.08):
            sharing["mpsConfig"] = self._mps() if self._is_so(0.95) else self._one_of(_NO_OBJECTS)
        return self._with_noise(sharing)

    def _time_slicing(self) -> dict[str, Any]:
        config: dict[str, Any] = {}
        if self._is_so(0.85):
            config["interval"] = self._one_of(_INTERVALS if self._is_so(0.7) else _OTHER_INTERVALS)
        return self._with_noise(config)

    def _mps(self) -> dict[str, Any]:
        config: dict[str, Any] = {}
        if self._is_so(0.5):
            config["defaultActiveThreadPercentage"] = self._one_of(_THREADS)
        if self._is_so(0.6):
            config["defaultPinnedDeviceMemoryLimit"] = self._one_of(_QUANTITIES)
        if self._is_so(0.3):
            limits = {self._one_of(_DEVICES): self._one_of(_QUANTITIES) for _ in range(self._random.randint(0, 2))}
            config["defaultPerDevicePinnedMemoryLimit"] = limits if self._is_so(0.95) else self._one_of(_NO_OBJECTS)
        if self._is_so(0.2):
            config["multiUser"] = self._one_of(_BOOLEANS)
        return self._with_noise(config)

    def _with_noise(self, config: dict[str, Any]) -> dict[str, Any]:
        if self._is_so(0.05):
            config[self._one_of(_STRANGE_FIELDS)] = self._one_of(_NO_OBJECTS)
        return config

    def _is_so(self, probability: float) -> bool:
        return self._random.random() < probability

    def _one_of(self, values: tuple[Any, ...]) -> Any:
        return self._random.choice(values)
