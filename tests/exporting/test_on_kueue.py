"""The real Kueue admits jobs as far as the quotas of a policy go, and charges what the scheduler then allocates."""

import json
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import pytest_asyncio
import yaml

from exporting import test_kueue as tables
from exporting.bed import EXTENDED, JOBS, NAMESPACE, Bed, a_bed
from exporting.test_kueue import policy
from gpusharing.api import names
from gpusharing.core import quantities
from gpusharing.core.policies.policy import ExaminedPolicy
from gpusharing.exporting.charging import Charge
from gpusharing.exporting.kueue import MOST_MAPPINGS, export
from gpusharing.snapshots.world import CLAIMS, TEMPLATES
from harness.commands import CommandError, run
from harness.workloads import claim_spec, gpu_config

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

RECIPE: Final = Path(__file__).parents[2] / "docs/recipes/kueue.md"
YAML: Final = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ALL: Final = {**tables.WHOLE, **tables.WALLED, **tables.MPS, **tables.MIG}
GIB: Final = 1024**3
EXCLUSIVE, SHARED, MPS, MIG = (f"gpusharing.dev/research-{mode}" for mode in ("exclusive", "timeslicing", "mps", "mig"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole_bed(toolchain: Path, kueue: Path) -> AsyncIterator[Bed]:
    async with a_bed() as bed:
        yield bed


@pytest_asyncio.fixture(loop_scope="module")
async def bed(whole_bed: Bed) -> AsyncIterator[Bed]:
    yield whole_bed
    await whole_bed.clean()


async def configured(bed: Bed, *options: str, quotas: Mapping[str, str | int] | None = None) -> Bed:
    """Kueue reads its Configuration when it starts: it starts again only for another one."""
    if bed.given != (options, quotas):
        await bed.configure(*options, quotas=quotas)
    return bed


class Mode(NamedTuple):
    job: Mapping[str, str]
    resource: str
    quota: int


MODES: Final = {
    "whole": Mode({"template": "research-exclusive"}, EXCLUSIVE, 1),
    "time-slicing": Mode({"template": "research-timeslicing"}, SHARED, 3),
    "MPS": Mode({"template": "research-mps"}, MPS, 4),
    "MIG": Mode({"template": "research-mig"}, MIG, 2),
    "extended resource": Mode({"resource": EXTENDED}, SHARED, 3),
}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
async def test_jobs_of_each_mode_are_admitted_up_to_the_quota(bed: Bed, mode: Mode) -> None:
    await configured(bed)
    jobs = [await bed.submit(**mode.job) for _ in range(mode.quota)]
    await bed.until_running(*jobs)
    one_more = await bed.submit(**mode.job)
    await bed.until_waiting(one_more, f"insufficient unused quota for {mode.resource} in flavor gpus, 1 more needed")
    await bed.until_charged({mode.resource: mode.quota})
    allocated = await bed.allocated()
    assert {names.sharing_of_device(one["device"]) for one in allocated} == {modes_of(mode.resource)}
    assert len(allocated) == mode.quota

    await bed.end(jobs[0])
    await bed.until_running(one_more)
    await bed.until_charged({mode.resource: mode.quota})


def modes_of(resource: str) -> names.Sharing:
    return next(mode for mode in names.Sharing if resource.endswith(names.policy_class("research", mode)))


async def test_the_job_of_the_recipe(bed: Bed) -> None:
    await configured(bed)
    [job] = map(yaml.safe_load, YAML.findall(RECIPE.read_text()))
    await bed.admin.call("POST", JOBS.path(namespace=NAMESPACE), job)
    await bed.until_running(job["metadata"]["name"])
    await bed.until_charged({MPS: 1})


async def test_templates_and_extended_resources_have_one_quota(bed: Bed) -> None:
    await configured(bed)
    jobs = [await bed.submit("research-timeslicing"), await bed.submit("research-timeslicing")]
    jobs += [await bed.submit(resource=EXTENDED)]
    await bed.until_running(*jobs)
    await bed.until_waiting(await bed.submit(resource=EXTENDED), "1 more needed")
    await bed.until_charged({SHARED: 3})


async def test_modes_next_to_each_other(bed: Bed) -> None:
    await configured(bed)
    templates = ("research-exclusive", "research-timeslicing", "research-mps", "research-mps", "research-small")
    await bed.until_running(*[await bed.submit(template) for template in templates])
    await bed.until_charged({EXCLUSIVE: 1, SHARED: 1, MPS: 2, MIG: 1})


async def test_devices_are_counted_alike_however_much_of_a_gpu_they_are(bed: Bed) -> None:
    """GSH1004 says so."""
    await configured(bed)
    jobs = [await bed.submit(template) for template in ("research-double", "research-large", "research-half")]
    await bed.until_running(*jobs)
    await bed.until_charged({SHARED: 1, MPS: 1, MIG: 1})
    assert "GSH1004" in bed.said


async def test_a_limit_without_a_request_is_not_recognized(bed: Bed) -> None:
    """Kueue looks only at requests, and Kubernetes fills them in for pods, but not for jobs."""
    await configured(bed)
    job = await bed.submit(resource=EXTENDED, fields=["limits"])
    await bed.until_waiting(job, f"resource {EXTENDED} unavailable in ClusterQueue")
    await bed.cover(EXTENDED, 1)
    await bed.until_running(job)
    await bed.until_charged({EXTENDED: 1})


# ------------------------------------------------------------------------------------------------- with the alpha gate

IN_MEMORY: Final = {f"memory.gpusharing.dev/research-{mode}": "24Gi" for mode in ("timeslicing", "mps", "mig")}


async def in_memory(bed: Bed) -> None:
    await configured(bed, "--charge", "memory", quotas=IN_MEMORY)


@pytest.mark.parametrize(
    ("mode", "templates"),
    [("mps", ("research-mps", "research-large")), ("timeslicing", 3 * ("research-timeslicing",))],
)
async def test_memory_of_shares_is_charged_as_it_is_promised(bed: Bed, mode: str, templates: tuple[str, ...]) -> None:
    await in_memory(bed)
    await bed.until_running(*[await bed.submit(one) for one in templates])
    await bed.until_charged({f"memory.gpusharing.dev/research-{mode}": 24 * GIB})
    promised = [quantities.whole(one["consumedCapacity"]["memory"]) for one in await bed.allocated()]
    assert sum(promised) == 24 * GIB
    one_more = await bed.submit(f"research-{mode}")
    await bed.until_waiting(one_more, f"memory.gpusharing.dev/research-{mode} in flavor gpus, 8Gi more needed")


async def test_memory_of_mig_is_charged_by_the_profile(bed: Bed) -> None:
    """The counter is what the device draws, and its capacity what the instance has: both are the profile's."""
    await in_memory(bed)
    await bed.until_running(await bed.submit("research-small"))
    [capacity] = await bed.memory_of_allocated_devices()
    await bed.until_charged({"memory.gpusharing.dev/research-mig": capacity})
    await bed.until_waiting(await bed.submit("research-half"), "memory.gpusharing.dev/research-mig in flavor gpus")


async def test_an_instance_of_any_profile_is_charged_as_the_largest(bed: Bed) -> None:
    """Kueue charges the most that any matching device has: the recipe says to name a profile."""
    await in_memory(bed)
    await bed.until_waiting(await bed.submit("research-mig"), "memory.gpusharing.dev/research-mig in flavor gpus")


async def test_whole_gpus_are_counted(bed: Bed) -> None:
    await in_memory(bed)
    await bed.until_running(await bed.submit("research-exclusive"))
    await bed.until_charged({EXCLUSIVE: 1})


async def test_shares_are_charged(bed: Bed) -> None:
    await configured(bed, "--charge", "shares")
    await bed.until_running(await bed.submit("research-double"), await bed.submit("research-large"))
    await bed.until_charged({"shares.gpusharing.dev/research-timeslicing": 2, "shares.gpusharing.dev/research-mps": 1})
    assert sorted(one["consumedCapacity"]["shares"] for one in await bed.allocated()) == ["1", "2"]
    await bed.until_waiting(await bed.submit("research-double"), "1 more needed")


async def test_extended_resources_are_refused_where_amounts_are_charged(bed: Bed) -> None:
    """GSH1006 says so."""
    await configured(bed, "--charge", "shares")
    await bed.until_waiting(await bed.submit(resource=EXTENDED), "with capacity sources configured")
    assert "GSH1006" in bed.said


# -------------------------------------------------------------------------------------------------------- limitations


@asynccontextmanager
async def template(bed: Bed, **devices: Any) -> AsyncIterator[str]:
    """The name of a template that people have made."""
    body = {"metadata": {"name": "special"}, "spec": {"spec": {"devices": devices}}}
    path = TEMPLATES.path(namespace=NAMESPACE)
    await bed.admin.call("POST", path, body)
    try:
        yield "special"
    finally:
        await bed.admin.call("DELETE", f"{path}/special")


ALTERNATIVES: Final = {
    "firstAvailable": [
        {"name": "share", "deviceClassName": "research-mps"},
        {"name": "whole", "deviceClassName": "research-exclusive"},
    ]
}


@pytest.mark.parametrize(
    ("request_", "said", "finding"),
    [
        (ALTERNATIVES, "FirstAvailable device selection is not supported", "GSH1007"),
        (
            {"exactly": {"deviceClassName": "research-mps", "allocationMode": "All"}},
            "AllocationMode 'All' is not supported",
            "GSH1007",
        ),
        (
            # Of reserved GPUs, the guard refuses such a template.
            {"exactly": {"deviceClassName": "gpu.nvidia.com", "adminAccess": True}},
            "AdminAccess is not supported",
            "",
        ),
        ({"exactly": {"deviceClassName": "gpu.nvidia.com"}}, "DeviceClass gpu.nvidia.com is not mapped", ""),
    ],
    ids=["alternatives", "all", "admin access", "not mapped"],
)
async def test_templates_that_kueue_does_not_admit(bed: Bed, request_: Any, said: str, finding: str) -> None:
    await configured(bed)
    async with template(bed, requests=[{"name": "gpu", **request_}]) as name:
        await bed.until_waiting(await bed.submit(name), said)
        _, reported = bed.export("kueue")
        assert (finding in reported) if finding else (name not in reported)


async def test_configs_and_constraints_of_a_template_do_not_matter(bed: Bed) -> None:
    await configured(bed)
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "research-exclusive"}}]
    config = [gpu_config({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}})]
    constraints = [{"matchAttribute": "gpu.nvidia.com/productName"}]
    async with template(bed, requests=requests, config=config, constraints=constraints) as name:
        await bed.until_running(await bed.submit(name))
        await bed.until_charged({EXCLUSIVE: 1})


async def test_a_mode_that_no_gpu_offers_now(bed: Bed) -> None:
    await configured(bed, "--charge", "shares")
    nothing = [{"cel": {"expression": "false"}}]
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "research-mps", "selectors": nothing}}]
    async with template(bed, requests=requests) as name:
        await bed.until_waiting(await bed.submit(name), "insufficient matching devices")


async def test_claims_that_jobs_name_are_not_admitted(bed: Bed) -> None:
    await configured(bed)
    body = {"metadata": {"name": "mine"}, "spec": claim_spec("research-mps")}
    await bed.admin.call("POST", CLAIMS.path(namespace=NAMESPACE), body)
    await bed.until_waiting(await bed.submit(claim="mine"), "does not support use of resource claims")


async def test_names_of_classes_as_resources_are_not_admitted(bed: Bed) -> None:
    """Kueue knows only the names of classes.extendedResources."""
    await configured(bed)
    resource = "deviceclass.resource.kubernetes.io/research-mps"
    await bed.until_waiting(await bed.submit(resource=resource), f"resource {resource} unavailable in ClusterQueue")


@pytest.mark.parametrize(
    ("policies", "charge", "said"),
    [
        *(([policy("p", ALL)], charge, "Initializing") for charge in Charge),
        ([policy(f"p{number}") for number in range(MOST_MAPPINGS)], Charge.DEVICES, "Initializing"),
        (
            [policy(f"p{number}") for number in range(MOST_MAPPINGS + 1)],
            Charge.DEVICES,
            f"Too many: {MOST_MAPPINGS + 1}: must have at most {MOST_MAPPINGS} items",
        ),
    ],
    ids=[*Charge, "as many as it takes", "too many"],
)
async def test_kueue_looks_at_its_configuration_first(
    kueue: Path, tmp_path: Path, policies: list[ExaminedPolicy], charge: Charge, said: str
) -> None:
    """Before it looks for a cluster, and finds none."""
    (tmp_path / "config.yaml").write_text(json.dumps(export(policies, (), charge).documents[0].body))
    with pytest.raises(CommandError) as ended:
        await run([kueue, f"--config={tmp_path / 'config.yaml'}"], env={"KUBECONFIG": os.devnull})
    assert said in str(ended.value)
