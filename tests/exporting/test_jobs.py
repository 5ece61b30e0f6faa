"""Templates and jobs that queueing systems cannot count."""

from typing import Any

import pytest

from exporting.test_kueue import MPS, policy
from gpusharing.exporting.jobs import Job, not_admitted_by_kueue, not_counted_by_volcano
from gpusharing.exporting.queues import classes_of
from gpusharing.findings.finding import Reference

CLASSES = classes_of(policy(offers=MPS, classes={"extendedResources": {"mps": "example.com/gpu-mps"}}).policy)
JOB = Reference("Job", "train", "ml")


def template(request: Any) -> dict[str, Any]:
    spec = {"spec": {"devices": {"requests": [{"name": "gpu", **request}]}}}
    return {"kind": "ResourceClaimTemplate", "metadata": {"name": "t", "namespace": "ml"}, "spec": spec}


def exactly(device_class: str = "p-mps", **more: Any) -> dict[str, Any]:
    return {"exactly": {"deviceClassName": device_class, **more}}


@pytest.mark.parametrize(
    ("request_", "of_kueue", "of_volcano"),
    [
        (exactly(), "", ""),
        (exactly(count=3, allocationMode="ExactCount"), "", ""),
        (exactly(allocationMode="All"), "AllocationMode 'All'", "AllocationMode 'All'"),
        (exactly("other", allocationMode="All"), "", ""),
        (exactly(adminAccess=True), "AdminAccess", ""),
        ({"firstAvailable": [{"deviceClassName": "other"}, {"deviceClassName": "p-mps"}]}, *2 * ["FirstAvailable"]),
        ({"firstAvailable": [{"deviceClassName": "other"}]}, "", ""),
        ({"firstAvailable": 7}, "", ""),
        ({"exactly": "hostile"}, "", ""),
    ],
)
def test_templates(request_: Any, of_kueue: str, of_volcano: str) -> None:
    templates = [template(request_)]
    for found, expected in (
        (list(not_admitted_by_kueue(templates, (), CLASSES)), of_kueue),
        (list(not_counted_by_volcano(templates, CLASSES)), of_volcano),
    ):
        assert [one.object.name for one in found] == (["t"] if expected else [])
        assert all(expected in one.sentence for one in found)


@pytest.mark.parametrize("spec", [None, {}, {"spec": None}, {"spec": {"devices": {"requests": "x"}}}, {"spec": [1]}])
def test_templates_that_say_nothing(spec: Any) -> None:
    templates = [{"kind": "ResourceClaimTemplate", "metadata": {"name": "t"}, "spec": spec}]
    assert list(not_admitted_by_kueue(templates, (), CLASSES)) == []


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        ({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}, []),
        ({"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}, ["names a ResourceClaim"]),
        ({"containers": [{"resources": {"limits": {"example.com/gpu": 1}}}]}, []),
        ({"containers": [{"resources": {"limits": {"example.com/gpu-mps": 1}}}]}, ["stands in limits only"]),
        (
            {"containers": [{"resources": {field: {"example.com/gpu-mps": 1} for field in ("limits", "requests")}}]},
            [],
        ),
        (
            {"containers": [{"resources": {"limits": {"deviceclass.resource.kubernetes.io/p-mps": 1}}}]},
            ["no ClusterQueue covers"],
        ),
        ({"containers": [{"resources": {"limits": {"deviceclass.resource.kubernetes.io/other": 1}}}]}, []),
        ({"containers": [{"resources": "hostile"}], "resourceClaims": [None]}, []),
    ],
)
def test_jobs(pod: Any, said: list[str]) -> None:
    found = list(not_admitted_by_kueue((), [Job(JOB, pod)], CLASSES))
    assert [one.object for one in found] == [JOB] * len(said)
    assert all(part in one.sentence for part, one in zip(said, found, strict=True))
