"""NVIDIA's opaque configurations: what is read, what is refused, and how that is said."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from building import gpu_config, interval_config, json_values
from gpusharing.api import nvidia, strict_json
from gpusharing.api.nvidia import GpuConfig, InvalidConfigError, MigDeviceConfig
from gpusharing.api.sharing.offers import Interval


def mps(**settings: Any) -> dict[str, Any]:
    return gpu_config({"strategy": "MPS", "mpsConfig": settings})


def time_slicing(**settings: Any) -> dict[str, Any]:
    return gpu_config({"strategy": "TimeSlicing", "timeSlicingConfig": settings})


def mig(sharing: dict[str, Any] | None = None) -> dict[str, Any]:
    return gpu_config(sharing, kind="MigDeviceConfig")


@pytest.mark.parametrize(
    ("parameters", "interval"),
    [
        pytest.param(time_slicing(), Interval.DEFAULT, id="timeSlicingConfig {} is Default"),
        pytest.param(time_slicing(interval=None), Interval.DEFAULT, id="null is absent"),
        *[pytest.param(interval_config(interval), interval, id=str(interval)) for interval in Interval],
    ],
)
def test_intervals(parameters: dict[str, Any], interval: Interval) -> None:
    config = nvidia.decode(parameters)
    assert isinstance(config, GpuConfig)
    assert config.sharing is not None
    assert config.sharing.time_slicing_config is not None
    assert config.sharing.time_slicing_config.interval is interval


@pytest.mark.parametrize(
    ("parameters", "kind"),
    [
        (gpu_config(), GpuConfig),
        (gpu_config() | {"sharing": None}, GpuConfig),
        (gpu_config({"strategy": "TimeSlicing"}), GpuConfig),
        (gpu_config({"strategy": "TimeSlicing", "timeSlicingConfig": None, "mpsConfig": None}), GpuConfig),
        (gpu_config({"strategy": "MPS"}), GpuConfig),
        (mps(), GpuConfig),
        (mps(defaultActiveThreadPercentage=0, multiUser=False), GpuConfig),
        (mps(defaultActiveThreadPercentage=100, defaultPinnedDeviceMemoryLimit="8Gi"), GpuConfig),
        (mps(defaultPinnedDeviceMemoryLimit=1024), GpuConfig),
        (mps(defaultPerDevicePinnedMemoryLimit={"0": "8Gi", "GPU-x": 1}), GpuConfig),
        (mig(), MigDeviceConfig),
        (mig({"strategy": "TimeSlicing"}), MigDeviceConfig),
        (mig({"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 50}}), MigDeviceConfig),
        # Nobody reads it there, so nobody checks it.
        (mig({"strategy": "TimeSlicing", "mpsConfig": {"defaultActiveThreadPercentage": 101}}), MigDeviceConfig),
    ],
)
def test_reads_what_nvidia_reads(parameters: dict[str, Any], kind: type) -> None:
    assert isinstance(nvidia.decode(parameters), kind)


THREADS_BELOW = "mpsConfig.defaultActiveThreadPercentage"
THREADS = f"sharing.{THREADS_BELOW}"
MEMORY = "sharing.mpsConfig.defaultPinnedDeviceMemoryLimit"
PER_DEVICE = "sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit"
STRATEGIES = "must be 'TimeSlicing' or 'MPS'"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (None, "parameters must be an object"),
        ([], "parameters must be an object"),
        ("GpuConfig", "parameters must be an object"),
        ({}, "apiVersion is None: must be 'resource.nvidia.com/v1beta1'"),
        (gpu_config() | {"apiVersion": "v1"}, "apiVersion is 'v1': must be 'resource.nvidia.com/v1beta1'"),
        (gpu_config(kind="gpuconfig"), "kind is 'gpuconfig': must be one of GpuConfig, MigDeviceConfig"),
        (gpu_config() | {"kind": ["GpuConfig"]}, "kind is ['GpuConfig']: must be one of GpuConfig, MigDeviceConfig"),
        (gpu_config() | {"Sharing": {}}, "Sharing is not a known field: remove it"),
        (gpu_config() | {"api_version": "x"}, "api_version is not a known field: remove it"),
        (gpu_config() | {"": 1}, "configuration is not a known field: remove it"),
        (gpu_config() | {"\ud800\n": 1}, r"configuration is '\ud800\n': Input should be a valid string, "),
        (gpu_config() | {"a\n": 1}, r"a\n is not a known field: remove it"),
        (gpu_config() | {"sharing": "MPS"}, "sharing is 'MPS': must be an object"),
        (gpu_config({}), "sharing.strategy is missing: add it"),
        (gpu_config({"strategy": None}), f"sharing.strategy is None: {STRATEGIES}"),
        (gpu_config({"strategy": "mps"}), f"sharing.strategy is 'mps': {STRATEGIES}"),
        (
            interval_config("medium"),
            "sharing.timeSlicingConfig.interval is 'medium': must be 'Default', 'Short', 'Medium' or 'Long'",
        ),
        (
            time_slicing(interval=["Short"]),
            "sharing.timeSlicingConfig.interval is ['Short']: must be 'Default', 'Short', 'Medium' or 'Long'",
        ),
        (
            gpu_config({"strategy": "MPS", "timeSlicingConfig": {}}),
            "sharing: timeSlicingConfig goes with strategy TimeSlicing, not with MPS: remove one",
        ),
        (
            gpu_config({"strategy": "TimeSlicing", "mpsConfig": {}}),
            "sharing: mpsConfig goes with strategy MPS, not with TimeSlicing: remove one",
        ),
        (mps(defaultActiveThreadPercentage=-1), f"sharing: {THREADS_BELOW} is -1: must be from 0 to 100"),
        (mps(defaultActiveThreadPercentage=101), f"sharing: {THREADS_BELOW} is 101: must be from 0 to 100"),
        (
            mig({"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 101}}),
            f"sharing: {THREADS_BELOW} is 101: must be from 0 to 100",
        ),
        (mps(defaultActiveThreadPercentage=50.0), f"{THREADS} is 50.0: Input should be a valid integer"),
        (mps(defaultActiveThreadPercentage="50"), f"{THREADS} is '50': Input should be a valid integer"),
        (mps(defaultActiveThreadPercentage=True), f"{THREADS} is True: Input should be a valid integer"),
        (mps(multiUser="yes"), "sharing.mpsConfig.multiUser is 'yes': Input should be a valid boolean"),
        (mps(multiUser=1), "sharing.mpsConfig.multiUser is 1: Input should be a valid boolean"),
        (mps(defaultPinnedDeviceMemoryLimit=True), f"{MEMORY}: must be a quantity, such as 8Gi"),
        (mps(defaultPinnedDeviceMemoryLimit={}), f"{MEMORY}: must be a quantity, such as 8Gi"),
        *[
            (mps(defaultPinnedDeviceMemoryLimit=text), f"{MEMORY}: must be a quantity, such as 8Gi")
            for text in ("", "8 Gi", "8GiB", "1K", "1e", "0x10", "Infinity", "1..2", "8Gi\n", "1" * 65)
        ],
        (mps(defaultPerDevicePinnedMemoryLimit=[]), f"{PER_DEVICE} is []: must be an object"),
        (mps(defaultPerDevicePinnedMemoryLimit={"0": []}), f"{PER_DEVICE}.0: must be a quantity, such as 8Gi"),
        (
            mig({"strategy": "MPS", "timeSlicingConfig": {}}),
            "sharing.timeSlicingConfig is not a known field: remove it",
        ),
        (
            mps(multiUser="yes", defaultActiveThreadPercentage="50"),
            (
                f"{THREADS} is '50': Input should be a valid integer; "
                "sharing.mpsConfig.multiUser is 'yes': Input should be a valid boolean"
            ),
        ),
        (
            gpu_config() | dict.fromkeys("abcde", 1),
            (
                "a is not a known field: remove it; b is not a known field: remove it; "
                "c is not a known field: remove it; "
                "and 2 more"
            ),
        ),
        (gpu_config() | {"sharing": json_values.nested(100)}, "parameters are nested too deeply: no configuration is"),
        (gpu_config() | {"sharing": json_values.nested(3000)}, "parameters are nested too deeply: no configuration is"),
    ],
)
def test_refusals(parameters: Any, message: str) -> None:
    with pytest.raises(InvalidConfigError) as refused:
        nvidia.decode(parameters)
    # The rest of the one about half surrogate pairs is pydantic's.
    assert str(refused.value).removesuffix("unable to parse raw data as a unicode string") == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"apiVersion":"v1","apiVersion":"resource.nvidia.com/v1beta1","kind":"GpuConfig"}', "apiVersion"),
        (
            (
                '{"apiVersion":"resource.nvidia.com/v1beta1","kind":"GpuConfig",'
                '"sharing":{"strategy":"MPS","strategy":"TimeSlicing"}}'
            ),
            "sharing.strategy",
        ),
    ],
)
def test_a_field_that_is_given_twice_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidConfigError) as refused:
        nvidia.decode(strict_json.loads(text))
    assert str(refused.value) == f"{message} is given twice: keep one"


FIELDS = (
    "apiVersion",
    "kind",
    "sharing",
    "strategy",
    "timeSlicingConfig",
    "interval",
    "mpsConfig",
    "defaultActiveThreadPercentage",
    "defaultPinnedDeviceMemoryLimit",
    "defaultPerDevicePinnedMemoryLimit",
    "multiUser",
)
leaves = st.sampled_from(["resource.nvidia.com/v1beta1", "GpuConfig", "MigDeviceConfig", "MPS", "TimeSlicing", "Short"])
near = st.recursive(
    leaves | json_values.scalars,
    lambda children: st.dictionaries(st.sampled_from(FIELDS) | json_values.text, children, max_size=5),
    max_leaves=10,
)
configs = st.fixed_dictionaries(
    {"apiVersion": st.just("resource.nvidia.com/v1beta1"), "kind": st.sampled_from(["GpuConfig", "MigDeviceConfig"])},
    optional={
        "sharing": st.fixed_dictionaries(
            {"strategy": leaves},
            optional={"timeSlicingConfig": near, "mpsConfig": near, "multiUser": near},
        )
        | near,
    },
)


def wide(depth: int) -> Any:
    """Maps in maps, each of which a message could show."""
    return {f"{letter}" * 20: wide(depth - 1) for letter in "abcd"} if depth else "\U000e0001" * 6


@pytest.mark.parametrize("value", [wide(4), [wide(4)] * 4, [[["x" * 99] * 9] * 9] * 9, 10**3000, "\U000e0001" * 3000])
def test_a_message_shows_little_of_what_was_written(value: Any) -> None:
    with pytest.raises(InvalidConfigError) as refused:
        nvidia.decode(gpu_config() | {"sharing": value})
    assert len(str(refused.value)) < 300


@given(json_values.values | near | configs)
@example(gpu_config() | {"x" * 10_000: 1})
@example(gpu_config() | {"sharing": ["y" * 10_000]})
@example(gpu_config() | {f"field-{number}": 1 for number in range(2_000)})
@example(mps(defaultPerDevicePinnedMemoryLimit={f"\ud800{number}" * 100: [] for number in range(100)}))
def test_whatever_a_tenant_writes_it_is_read_or_refused_in_a_few_printable_words(parameters: Any) -> None:
    try:
        config = nvidia.decode(parameters)
    except InvalidConfigError as refusal:
        message = str(refusal)
        assert message
        assert len(message) < 1_000
        assert message.isprintable()
    else:
        assert config.kind == parameters["kind"]
