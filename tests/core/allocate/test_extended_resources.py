"""What the scheduler makes of extended resources."""

import re
from typing import Any

import pytest

from gpusharing.core.allocate.extended_resources import ExtendedResources, NotProvidedError
from gpusharing.kube.kinds import DEVICE_CLASSES

GPU = "example.com/gpu"


def known(*classes: tuple[str, str | None, str]) -> ExtendedResources:
    values: list[dict[str, Any]] = [
        {"metadata": {"name": name, "creationTimestamp": created}, "spec": {"extendedResourceName": resource}}
        for name, resource, created in classes
    ]
    return ExtendedResources({value["metadata"]["name"]: DEVICE_CLASSES.from_json(value) for value in values})


GPUS = known(("gpus", GPU, "2026-01-01T00:00:00Z"))


def container(requests: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests}, **fields}


def pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": containers, "initContainers": init}}


def asked(resources: ExtendedResources, pod: dict[str, Any], **allocatable: int) -> list[tuple[str, str, int]]:
    claim = resources.claim(pod, {GPU: allocatable["of_plugins"]} if allocatable else {})
    each = [request.alternatives[0] for request in claim.requests] if claim else []
    return [(one.name, one.device_class, one.count) for one in each]


def test_a_request_is_named_after_its_container_and_its_place_among_the_resources() -> None:
    found = asked(GPUS, pod(container({"cpu": "1"}), container({"memory": "1Gi", GPU: "2", "cpu": "500m"})))
    assert found == [("container-1-request-1", "gpus", 2)]


def test_each_class_has_a_resource_of_its_own() -> None:
    found = asked(GPUS, pod(container({"deviceclass.resource.kubernetes.io/gpus": 1})))
    assert found == [("container-0-request-0", "gpus", 1)]


def test_limits_are_requests() -> None:
    assert asked(GPUS, pod({"name": "c", "resources": {"limits": {GPU: 1}}})) == [("container-0-request-0", "gpus", 1)]


def test_init_containers_reuse_what_containers_have_that_follow() -> None:
    init = (container({GPU: 2}), container({GPU: 5}), container({GPU: 3}, restartPolicy="Always"))
    # The second needs 5; a sidecar after it has 3, the container 1.
    found = asked(GPUS, pod(container({GPU: 1}), init=init))
    assert found == [
        ("container-1-request-0", "gpus", 1),
        ("container-2-request-0", "gpus", 3),
        ("container-3-request-0", "gpus", 1),
    ]


def test_a_sidecar_before_an_init_container_keeps_its_own() -> None:
    init = (container({GPU: 1}, restartPolicy="Always"), container({GPU: 1}))
    found = asked(GPUS, pod(init=init))
    assert found == [("container-0-request-0", "gpus", 1), ("container-1-request-0", "gpus", 1)]


@pytest.mark.parametrize(
    "classes",
    [
        (("old", GPU, "2026-01-01T00:00:00Z"), ("new", GPU, "2026-01-02T00:00:00Z")),
        (("new", GPU, "2026-01-01T00:00:00Z"), ("old", GPU, "2026-01-01T00:00:00Z")),
    ],
    ids=["the newest", "of two of one age, the first in the alphabet"],
)
def test_of_several_classes_one_has_the_resource(classes: tuple[tuple[str, str, str], ...]) -> None:
    ((_, found, _),) = asked(known(*classes), pod(container({GPU: 1})))
    assert found == "new"


def test_where_a_device_plugin_has_it_no_claim_is_made() -> None:
    assert asked(GPUS, pod(container({GPU: 1})), of_plugins=4) == []


def test_a_device_plugin_that_has_none_leaves_it_to_the_class() -> None:
    assert asked(GPUS, pod(container({GPU: 1})), of_plugins=0) == [("container-0-request-0", "gpus", 1)]


def test_beside_a_resource_of_classes_another_one_must_be_provided() -> None:
    with pytest.raises(NotProvidedError, match=re.escape("provides example.com/other")):
        asked(GPUS, pod(container({GPU: 1, "example.com/other": 1})))


def test_a_pod_without_resources_of_classes_is_none_of_its_business() -> None:
    assert asked(GPUS, pod(container({"cpu": 1, "example.com/other": 1}))) == []
