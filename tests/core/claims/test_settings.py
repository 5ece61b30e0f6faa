"""What a claim's devices are set to."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import DRIVER, EXCLUSIVE, claim, config, gpu_config, interval_config, json_values, result, time_slicing
from gpusharing.api.dra import AllocationConfig, AllocationResult
from gpusharing.api.sharing.device_settings import DeviceSettings, MemorySettings, MpsSettings, SettingSources
from gpusharing.api.sharing.gpu_status import MemoryWallSupport
from gpusharing.api.sharing.node_spec import PolicyReference
from gpusharing.api.sharing.offers import (
    Enforcement,
    Interval,
    MpsMemory,
    MpsOffer,
    MpsThreads,
    Offers,
    TimeSlicingMemory,
    TimeSlicingOffer,
)
from gpusharing.api.sharing.tenants import Allowance, Strategy
from gpusharing.core.claims import allocation
from gpusharing.core.claims.settings import SettingsError, follow, resolve

THIRDS = PolicyReference(name="thirds", generation=3)
LONG = time_slicing(4, Interval.LONG)

SHORT, MEDIUM = interval_config("Short"), interval_config("Medium")
MPS = gpu_config({"strategy": "MPS"})
MIG = gpu_config(kind="MigDeviceConfig")


class Whole(NamedTuple):
    """A whole GPU: only the claim and its class say how it is set."""

    configs: Sequence[AllocationConfig]
    interval: Interval | None = None
    source: str | None = None
    request: str = "gpu"


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Whole([]), id="nothing asked, nothing set"),
        pytest.param(Whole([config(gpu_config())]), id="a config without sharing"),
        pytest.param(Whole([config(SHORT)], Interval.SHORT, "claim"), id="of the claim"),
        pytest.param(Whole([config(SHORT, source="FromClass")], Interval.SHORT, "class"), id="of the class"),
        pytest.param(
            Whole([config(SHORT, requests=["gpu"])], Interval.SHORT, "claim"),
            id="for this request",
        ),
        pytest.param(Whole([config(SHORT, requests=["other"])]), id="for another request"),
        pytest.param(Whole([config(SHORT, requests=["gp"])]), id="for a request whose name begins alike"),
        pytest.param(
            Whole([config(SHORT, requests=["other", "gpu"])], Interval.SHORT, "claim"), id="for two requests"
        ),
        pytest.param(
            Whole([config(SHORT, requests=["gpu"])], Interval.SHORT, "claim", request="gpu/big"),
            id="a request covers its subrequests",
        ),
        pytest.param(
            Whole([config(SHORT, requests=["gpu/big"])], Interval.SHORT, "claim", request="gpu/big"),
            id="for this subrequest",
        ),
        pytest.param(Whole([config(SHORT, requests=["gpu/small"])], request="gpu/big"), id="for its sibling"),
        pytest.param(Whole([config(SHORT, requests=["gpu/big"])]), id="for a subrequest, but the request has none"),
        pytest.param(
            Whole([config(SHORT, source="FromClass"), config(MEDIUM)], Interval.MEDIUM, "claim"),
            id="class, then claim: the claim wins",
        ),
        pytest.param(
            Whole([config(SHORT), config(MEDIUM, requests=["gpu"]), config(SHORT, requests=["other"])],
                  Interval.MEDIUM, "claim"),
            id="the last that matches wins",
        ),
        pytest.param(Whole([config(SHORT), config(gpu_config())]), id="it wins whole: nothing is left of the others"),
        pytest.param(
            Whole([config(gpu_config({"strategy": "TimeSlicing", "timeSlicingConfig": {}}))],
                  Interval.DEFAULT, "claim"),
            id="timeSlicingConfig {} is Default",
        ),
        pytest.param(
            Whole([config(gpu_config({"strategy": "TimeSlicing"}))], Interval.DEFAULT, "claim"),
            id="no timeSlicingConfig is Default",
        ),
        pytest.param(
            Whole([config(MEDIUM), config(MIG)], Interval.MEDIUM, "claim"),
            id="MigDeviceConfig for all requests is for the MIG devices among them",
        ),
        pytest.param(Whole([config(MPS), config(SHORT)], Interval.SHORT, "claim"), id="MPS, but a later one wins"),
    ],
)  # fmt: skip
def test_whole_gpus(case: Whole) -> None:
    asked = result("gpu-0", request=case.request)
    expected = DeviceSettings(
        request=case.request,
        device="gpu-0",
        interval=case.interval,
        sources=SettingSources(interval=case.source) if case.source else None,
    )
    # What the policy offers beside it changes nothing for a whole GPU.
    for offers, policy in ((EXCLUSIVE, None), (EXCLUSIVE, THIRDS), (time_slicing(exclusive=True), THIRDS)):
        assert resolve(asked, case.configs, offers, policy) == expected


@pytest.mark.parametrize(
    ("configs", "ignored"),
    [
        pytest.param([], (), id="the policy's interval"),
        pytest.param([config(gpu_config())], (), id="a config that asks for nothing"),
        pytest.param([config(interval_config("Long"))], (), id="the same interval"),
        pytest.param([config(gpu_config({"strategy": "TimeSlicing"}))], (), id="the strategy, and no interval"),
        pytest.param(
            [config(SHORT)],
            (("interval Short of the claim: clients of a GPU share one interval, and policy thirds sets Long"),),
            id="another interval is ignored and reported",
        ),
        pytest.param(
            [config(MEDIUM, source="FromClass")],
            (("interval Medium of the class: clients of a GPU share one interval, and policy thirds sets Long"),),
            id="of the class too",
        ),
        pytest.param([config(SHORT), config(interval_config("Long"))], (), id="only of the config that wins"),
    ],
)
def test_time_sliced_gpus(configs: Sequence[AllocationConfig], ignored: tuple[str, ...]) -> None:
    settings = resolve(result("gpu-0-timeslicing"), configs, LONG, THIRDS)
    assert settings == DeviceSettings(
        request="gpu",
        device="gpu-0-timeslicing",
        interval=Interval.LONG,
        sources=SettingSources(interval="policy/thirds"),
        ignored=ignored,
    )


WHOLE, SHARED = result("gpu-0"), result("gpu-0-timeslicing")


def test_settings_follow_the_offer_that_changes_under_them() -> None:
    before = resolve(SHARED, [config(SHORT)], LONG, THIRDS)
    other = PolicyReference(name="halves", generation=1)
    after = follow(before, time_slicing(2, Interval.MEDIUM), other)
    sources = SettingSources(interval="policy/halves")
    assert after == before.model_copy(update={"interval": Interval.MEDIUM, "sources": sources})


@pytest.mark.parametrize(("offers", "policy"), [(EXCLUSIVE, THIRDS), (EXCLUSIVE, None), (LONG, None)])
def test_settings_stay_where_the_mode_is_no_longer_offered(offers: Offers, policy: PolicyReference | None) -> None:
    before = resolve(SHARED, [], time_slicing(2, Interval.MEDIUM), THIRDS)
    assert follow(before, offers, policy) == before


def walls(enforcement: Enforcement, default: str = "4096Mi", interval: Interval = Interval.LONG) -> Offers:
    memory = TimeSlicingMemory(default=default, enforcement=enforcement)
    return Offers(time_slicing=TimeSlicingOffer(max_clients=4, interval=interval, memory=memory))


def share_of(memory: str | None) -> AllocationResult:
    consumed = {"shares": "1"} | ({"memory": memory} if memory else {})
    return dataclasses.replace(SHARED, consumed_capacity=consumed)


SUPPORTED = MemoryWallSupport(supported=True)
IMPOSSIBLE = MemoryWallSupport(supported=False, reason="the driver is too old")
HELD = (Enforcement.REQUIRED, Enforcement.PREFERRED)


@pytest.mark.parametrize("enforcement", HELD)
@pytest.mark.parametrize(
    ("consumed", "limit", "source"),
    [
        ("16Gi", 16384, "allocation"),
        ("8589934592", 8192, "allocation"),
        # Mebibytes are what the driver is told, and it must not be more than what was counted.
        ("1500M", 1430, "allocation"),
        (None, 4096, "policy/thirds"),
        # Allocated while the memory was not divided, so that nothing was counted.
        ("0", 4096, "policy/thirds"),
    ],
)
def test_a_share_is_held_to_the_memory_that_was_allocated(
    enforcement: Enforcement, consumed: str | None, limit: int, source: str
) -> None:
    settings = resolve(share_of(consumed), [config(SHORT)], walls(enforcement), THIRDS, memory_wall=SUPPORTED)
    assert settings.memory == MemorySettings(limit=limit, enforcement=enforcement)
    assert settings.sources == SettingSources(interval="policy/thirds", memory=source)
    assert (settings.interval, len(settings.ignored)) == (Interval.LONG, 1)


def test_nobody_is_held_where_nobody_wants_it() -> None:
    for offers in (LONG, walls(Enforcement.NONE)):
        for support in (SUPPORTED, IMPOSSIBLE):
            settings = resolve(share_of("8Gi"), [], offers, THIRDS, memory_wall=support)
            assert (settings.memory, settings.ignored) == (None, ())
            assert settings.sources == SettingSources(interval="policy/thirds")


def test_a_preferred_wall_that_cannot_be_is_missed_and_reported() -> None:
    offers = walls(Enforcement.PREFERRED)
    settings = resolve(share_of("8Gi"), [config(SHORT)], offers, THIRDS, memory_wall=IMPOSSIBLE)
    assert settings.memory is None
    assert settings.ignored[1:] == (
        "memory 8192Mi: not enforced on this GPU (the driver is too old); policy thirds permits that",
    )
    assert len(settings.ignored) == 2


def test_a_required_wall_that_cannot_be_is_refused() -> None:
    with pytest.raises(SettingsError) as refused:
        resolve(share_of("8Gi"), [], walls(Enforcement.REQUIRED), THIRDS, memory_wall=IMPOSSIBLE)
    assert str(refused.value) == (
        "request gpu: policy thirds requires a memory limit on device gpu-0-timeslicing, which is not supported ("
        "the driver is too old): delete the pod, so that it is scheduled again"
    )


LATER_OFFERS = [
    LONG,
    walls(Enforcement.NONE),
    *(walls(enforcement, default) for enforcement in HELD for default in ("1Mi", "80000Mi")),
]


@pytest.mark.parametrize("now", LATER_OFFERS)
@pytest.mark.parametrize("before", LATER_OFFERS)
@pytest.mark.parametrize("consumed", ["8Gi", None])
def test_an_offer_that_changes_moves_no_wall_of_a_claim(before: Offers, now: Offers, consumed: str | None) -> None:
    settings = resolve(share_of(consumed), [], before, THIRDS, memory_wall=SUPPORTED)
    other = PolicyReference(name="halves", generation=1)
    after = follow(settings, now, other)
    assert after.memory == settings.memory
    before_sources, after_sources = settings.sources, after.sources
    assert before_sources is not None
    assert after_sources == before_sources.model_copy(update={"interval": "policy/halves"})


TIME_SLICED = gpu_config({"strategy": "TimeSlicing"})


def limited(**limits: Any) -> dict[str, Any]:
    return gpu_config({"strategy": "MPS", "mpsConfig": limits})


@pytest.mark.parametrize(
    ("parameters", "allow", "problem"),
    [
        pytest.param(gpu_config(), Allowance(gpu_config=(), intervals=()), None, id="nothing asked"),
        pytest.param(SHORT, Allowance(), None, id="nothing said"),
        pytest.param(SHORT, Allowance(gpu_config=(Strategy.TIME_SLICING,), intervals=(Interval.SHORT,)), None, id="ok"),
        pytest.param(
            SHORT,
            Allowance(gpu_config=()),
            "sharing.strategy is TimeSlicing, but tenants.allow.gpuConfig is none",
            id="no strategy",
        ),
        pytest.param(
            MPS,
            Allowance(gpu_config=(Strategy.TIME_SLICING,)),
            "sharing.strategy is MPS, but tenants.allow.gpuConfig is TimeSlicing",
            id="another strategy",
        ),
        pytest.param(
            SHORT,
            Allowance(intervals=(Interval.DEFAULT, Interval.LONG)),
            "sharing.timeSlicingConfig.interval is Short, but tenants.allow.intervals is Default, Long",
            id="another interval",
        ),
        pytest.param(TIME_SLICED, Allowance(intervals=()), None, id="an interval that nobody asked for"),
        pytest.param(
            limited(defaultActiveThreadPercentage=51),
            Allowance(max_threads=50),
            "sharing.mpsConfig.defaultActiveThreadPercentage is 51, but tenants.allow.maxThreads is 50",
            id="too many threads",
        ),
        pytest.param(
            limited(defaultPinnedDeviceMemoryLimit="21Gi"),
            Allowance(max_memory="20Gi"),
            "sharing.mpsConfig.defaultPinnedDeviceMemoryLimit is 21Gi, but tenants.allow.maxMemory is 20Gi",
            id="too much memory",
        ),
        pytest.param(
            limited(defaultActiveThreadPercentage=50, defaultPinnedDeviceMemoryLimit="20480Mi"),
            Allowance(max_threads=50, max_memory="20Gi", gpu_config=(Strategy.MPS,), intervals=()),
            None,
            id="as much as is allowed",
        ),
    ],
)
def test_a_config_asks_for_what_is_allowed(parameters: Any, allow: Allowance, problem: str | None) -> None:
    def resolved(source: str) -> DeviceSettings:
        return resolve(result(), [config(parameters, source=source)], EXCLUSIVE, THIRDS, allow=allow)

    # A class is the platform's own word.
    assert resolved("FromClass").request == "gpu"
    if problem is None:
        assert resolved("FromClaim").request == "gpu"
        return
    with pytest.raises(SettingsError) as refused:
        resolved("FromClaim")
    assert str(refused.value) == (
        f"request gpu: config of the claim: {problem} in policy thirds: use an allowed value, or remove the config"
    )


def test_mig_devices_are_no_exception() -> None:
    asked = config(gpu_config({"strategy": "TimeSlicing"}, kind="MigDeviceConfig"))
    allow = Allowance(gpu_config=(Strategy.MPS,))
    with pytest.raises(SettingsError, match="is TimeSlicing, but tenants"):
        resolve(result("gpu-0-mig-1g10gb-19-0"), [asked], EXCLUSIVE, THIRDS, allow=allow)


class Refusal(NamedTuple):
    result: AllocationResult
    configs: Sequence[AllocationConfig]
    message: str
    offers: Offers = LONG
    policy: PolicyReference | None = THIRDS


def no_mps(device: str, source: str = "claim") -> str:
    return (
        f"request gpu: config of the {source}: sharing.strategy is MPS, but device {device} is shared by "
        "time-slicing: use TimeSlicing, or remove the config"
    )


NOT_MIG = (
    "request gpu: config of the claim: MigDeviceConfig names this request, but device gpu-0 is not a MIG device: "
    "use GpuConfig"
)
GONE = "request gpu: device gpu-0-timeslicing is no longer offered: delete the pod and the claim"
NO_MPS = "request gpu: device gpu-0-mps is no longer offered: delete the pod and the claim"
_LIMIT = "request gpu: config of the claim: sharing.mpsConfig.defaultPinnedDeviceMemoryLimit"
TOO_LITTLE = f"{_LIMIT} is 1k: must be at least 1Mi, and less than 8796093022208Mi"
NO_AMOUNT = f"{_LIMIT}: must be a quantity, such as 8Gi"
NOT_SHORT = (
    "request gpu: config of the claim: sharing.strategy is TimeSlicing, but device gpu-0-mps is shared by MPS: use "
    "MPS, or remove the config"
)
INSTANCE = "gpu-0-mig-1g10gb-19-0"
NO_MPS_ON_MIG = (
    "request gpu: config of the claim: sharing.strategy is MPS, which MIG devices do not support yet: remove the "
    "config, or use an MPS device of a whole GPU"
)
ONLY_MIG = (
    f"request gpu: config of the claim: GpuConfig names this request, but device {INSTANCE} is a MIG device: "
    "use MigDeviceConfig"
)
SHARED_BY_MPS = Offers(
    mps=MpsOffer(max_clients=4, memory=MpsMemory(default="8192Mi", max="20480Mi"), threads=MpsThreads(default=25))
)
MIG_MPS = MIG | {"sharing": {"strategy": "MPS"}}
UNKNOWN = "request gpu: gpu-0-vgpu is not a device of this driver: delete the pod, so that it is scheduled again"
BROKEN = "request gpu: config of the class: parameters must be an object"


def mps(**limits: Any) -> AllocationConfig:
    memory = {"defaultPinnedDeviceMemoryLimit": limits["memory"]} if "memory" in limits else {}
    threads = {"defaultActiveThreadPercentage": limits["threads"]} if "threads" in limits else {}
    return config(gpu_config({"strategy": "MPS", "mpsConfig": memory | threads}))


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        (config(MPS), MpsSettings(threads=100)),
        (mps(memory="2Gi"), MpsSettings(memory=2048, threads=100, most_memory=2048)),
        (mps(memory="1G", threads=25), MpsSettings(memory=953, threads=25, most_memory=953, most_threads=25)),
        (mps(memory="10M"), MpsSettings(memory=9, threads=100, most_memory=9)),
    ],
)
def test_a_whole_gpu_may_be_shared_by_mps_within_its_claim(configured: AllocationConfig, expected: MpsSettings) -> None:
    settings = resolve(WHOLE, [configured], EXCLUSIVE, None)
    assert (settings.mps, settings.interval) == (expected, None)
    assert settings.sources == SettingSources(mps="claim")


FIRST, SECOND, LOOKING, SHARE = (
    (result("gpu-1", request="a"), "GPU-1"),
    (result("gpu-0", request="b"), "GPU-2"),
    (result("gpu-2", request="look", admin_access=True), "GPU-0"),
    (result("gpu-3-timeslicing", request="share"), "GPU-3"),
)


def each(**limits: str) -> dict[str, Any]:
    return gpu_config({"strategy": "MPS", "mpsConfig": {"defaultPerDevicePinnedMemoryLimit": limits}})


@pytest.mark.parametrize(
    ("configs", "memory"),
    [
        pytest.param([config(each(**{"GPU-1": "1Gi", "GPU-2": "2Gi"}))], [1024, 2048], id="by uuid"),
        pytest.param([config(each(**{"0": "1Gi", "1": "2Gi"}))], [1024, 2048], id="by index, in the order of uuids"),
        pytest.param([config(each(**{"1": "2Gi"}))], [None, 2048], id="no limit for the other"),
        pytest.param([config(each(**{"0": "1Gi", "GPU-1": "3Gi"}))], [3072, None], id="a uuid before an index"),
        pytest.param(
            [config(each(**{"0": "1Gi"}), requests=["a"]), config(each(**{"0": "2Gi"}), requests=["b"])],
            [1024, 2048],
            id="an index counts the GPUs of its own config only",
        ),
        pytest.param(
            [config(each(**{"1": "2Gi"}), source="FromClass"), config(each(**{"0": "5Gi"}), requests=["a"])],
            [5120, "FromClass"],
            id="the last config has one GPU, so the first has none with index 1",
        ),
    ],
)
def test_single_gpus_of_a_claim_have_limits_of_their_own(
    configs: list[AllocationConfig], memory: list[int | str | None]
) -> None:
    gpus = [SECOND, LOOKING, FIRST, SHARE]
    for (device, _), expected in zip((FIRST, SECOND), memory, strict=True):
        if isinstance(expected, str):
            with pytest.raises(
                SettingsError, match="names none of the GPUs that this config is for: use a uuid of GPU-2,"
            ):
                resolve(device, configs, EXCLUSIVE, None, gpus=gpus)
        else:
            mps_settings = resolve(device, configs, EXCLUSIVE, None, gpus=gpus).mps
            assert mps_settings == MpsSettings(memory=expected, threads=100, most_memory=expected)


@pytest.mark.parametrize("key", ["2", "-1", "x", "", "GPU-0", "GPU-3", "0_0", " 0", "9999999"])
def test_a_limit_for_a_gpu_of_nobody_is_refused(key: str) -> None:
    with pytest.raises(SettingsError) as refused:
        resolve(FIRST[0], [config(each(**{key: "1Gi"}))], EXCLUSIVE, None, gpus=[FIRST, SECOND, LOOKING, SHARE])
    assert str(refused.value) == (
        f"request a: config of the claim: sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit.{key} names none of the "
        "GPUs that this config is for: use a uuid of GPU-1, GPU-2, or its index there, which begins at 0"
    )


def test_what_tenants_may_ask_for_binds_the_limits_of_single_gpus() -> None:
    with pytest.raises(
        SettingsError, match=r"PerDevicePinnedMemoryLimit.1 is 21Gi, but tenants.allow.maxMemory is 20Gi"
    ):
        resolve(
            FIRST[0],
            [config(each(**{"0": "20Gi", "1": "21Gi"}))],
            EXCLUSIVE,
            THIRDS,
            gpus=[FIRST, SECOND],
            allow=Allowance(max_memory="20Gi"),
        )


@pytest.mark.parametrize(
    ("consumed", "expected"),
    [
        ({"memory": "16Gi", "threads": "40"}, MpsSettings(memory=16384, threads=40, most_memory=20480)),
        ({"memory": "8589934592", "threads": "5"}, MpsSettings(memory=8192, threads=5, most_memory=20480)),
        ({"memory": "9e9", "threads": "1e1"}, MpsSettings(memory=8583, threads=10, most_memory=20480)),
        ({}, MpsSettings(threads=25, most_memory=20480)),
        # Allocated before the policy allowed less.
        ({"memory": "24Gi", "threads": "40"}, MpsSettings(memory=24576, threads=40, most_memory=24576)),
    ],
)
def test_a_share_of_mps_is_limited_to_what_was_allocated(consumed: dict[str, str], expected: MpsSettings) -> None:
    share = dataclasses.replace(result("gpu-0-mps"), consumed_capacity=consumed)
    settings = resolve(share, [mps(memory="1Gi")], SHARED_BY_MPS, THIRDS)
    assert settings.mps == expected
    assert len(settings.ignored) == 1


@pytest.mark.parametrize("capacity", ["memory", "threads"])
def test_an_amount_that_nobody_can_read_is_refused_by_name(capacity: str) -> None:
    share = dataclasses.replace(result("gpu-0-mps"), consumed_capacity={capacity: "1e999999999"})
    with pytest.raises(SettingsError, match=f"request gpu: capacity {capacity}: '1e999999999' is not a quantity"):
        resolve(share, [], SHARED_BY_MPS, THIRDS)


def test_a_mig_instance_has_no_settings() -> None:
    for configs in ([], [config(MIG)], [config(SHORT)]):
        settings = resolve(result(INSTANCE), configs, EXCLUSIVE, None)
        assert (settings.interval, settings.mps, settings.ignored) == (None, None, ())


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Refusal(result("gpu-0-mps"), [], NO_MPS), id="MPS where it is not offered"),
        pytest.param(Refusal(WHOLE, [mps(memory="1k")], TOO_LITTLE), id="MPS with hardly any memory"),
        pytest.param(Refusal(WHOLE, [mps(memory="much")], NO_AMOUNT), id="MPS with no amount of memory"),
        pytest.param(Refusal(result("gpu-0-mps"), [config(SHORT)], NOT_SHORT, SHARED_BY_MPS), id="an interval for MPS"),
        pytest.param(Refusal(result(INSTANCE), [config(MIG_MPS)], NO_MPS_ON_MIG), id="MPS on MIG"),
        pytest.param(
            Refusal(result(INSTANCE), [config(SHORT, requests=["gpu"])], ONLY_MIG), id="GpuConfig on MIG by name"
        ),
        pytest.param(Refusal(SHARED, [config(MPS)], no_mps("gpu-0-timeslicing")), id="MPS on a time-sliced GPU"),
        pytest.param(
            Refusal(SHARED, [config(MPS, source="FromClass")], no_mps("gpu-0-timeslicing", "class")), id="of a class"
        ),
        pytest.param(Refusal(WHOLE, [config(MIG, requests=["gpu"])], NOT_MIG), id="MigDeviceConfig by name"),
        pytest.param(
            Refusal(WHOLE, [config(MIG, requests=["gpu"]), config(SHORT)], NOT_MIG), id="even where a later one wins"
        ),
        pytest.param(
            Refusal(WHOLE, [config([], source="FromClass"), config(SHORT)], BROKEN), id="so does what cannot be read"
        ),
        pytest.param(Refusal(SHARED, [], GONE, EXCLUSIVE), id="no longer offered"),
        pytest.param(Refusal(result("gpu-0-vgpu"), [], UNKNOWN), id="a device that this driver never published"),
        pytest.param(Refusal(SHARED, [], GONE, EXCLUSIVE, None), id="as found"),
    ],
)
def test_refusals(case: Refusal) -> None:
    with pytest.raises(SettingsError) as refused:
        resolve(case.result, case.configs, case.offers, case.policy)
    assert str(refused.value) == case.message


def test_only_configs_and_results_of_our_driver_count() -> None:
    item = claim(
        "c1",
        result("nic-0", driver="other"),
        result("gpu-0"),
        configs=[config(SHORT), config({"what": "ever"}, driver="other"), AllocationConfig(source="FromClass")],
    )
    assert allocation.results(item, DRIVER) == (result("gpu-0"),)
    assert allocation.configs(item, DRIVER) == (config(SHORT),)
    pending = claim("c2", allocated=False)
    assert (allocation.results(pending, DRIVER), allocation.configs(pending, DRIVER)) == ((), ())


@given(json_values.values, st.sampled_from([WHOLE, SHARED]))
def test_whatever_is_asked_is_set_or_refused_in_words_that_can_be_written(
    parameters: Any, asked: AllocationResult
) -> None:
    said = ""
    try:
        resolve(asked, [config(parameters)], LONG, THIRDS)
    except SettingsError as refusal:
        said = str(refusal)
    assert said.isprintable()


@pytest.mark.parametrize(
    "other",
    [
        claim("c1", result("gpu-1")),
        claim("c1", result(pool="n2")),
        claim("c1", result(request="gpu/big")),
        claim("c1", result(share_id="b")),
        claim("c1", result(admin_access=True)),
        claim("c1", result(), result("gpu-1")),
        claim("c1", configs=[config(SHORT)]),
        claim("c1", configs=[config(MEDIUM, source="FromClass")]),
        claim("c1", configs=[config(MEDIUM, requests=["gpu"])]),
        claim("c1", allocated=False),
    ],
)
def test_each_allocation_has_a_digest_of_its_own(other: Any) -> None:
    assert allocation.digest(other, DRIVER) != allocation.digest(claim("c1", configs=[config(MEDIUM)]), DRIVER)
    assert allocation.digest(other, DRIVER) != allocation.digest(claim("c1"), DRIVER)


def test_a_digest_speaks_of_the_allocation_only() -> None:
    one = claim("c1", result(), result("nic-0", driver="other"), configs=[config({"a": 1, "b": 2})])
    same = claim("c2", result(), configs=[config({"b": 2, "a": 1}), config({}, driver="other")], namespace="team")
    assert allocation.digest(one, DRIVER) == allocation.digest(same, DRIVER)


@given(json_values.values | st.integers(min_value=1, max_value=3_000).map(json_values.nested))
def test_every_allocation_has_a_digest(parameters: Any) -> None:
    assert len(allocation.digest(claim(configs=[config(parameters)]), DRIVER)) == 16
