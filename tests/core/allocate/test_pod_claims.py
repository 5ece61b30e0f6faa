"""Which claims a pod has, and with which the scheduler does not try any node."""

from typing import Any

import pytest

from gpusharing.core.allocate.pod_claims import PodClaimError, claims_of_pod

TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "t"}


def pod(*entries: dict[str, Any], group: str | None = None, made: str | None = "c") -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "ml", "uid": "p-uid"},
        "spec": {"resourceClaims": entries} | ({"schedulingGroup": {"podGroupName": group}} if group else {}),
        "status": {"resourceClaimStatuses": [{"name": "gpu"} | ({"resourceClaimName": made} if made else {})]},
    }


def claim(name: str, *, owner: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    owners = [{"controller": True, **owner}] if owner else []
    return {"metadata": {"name": name, "namespace": "ml", "uid": name, "ownerReferences": owners, **metadata}}


POD = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p-uid"}
GROUP = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "gang", "uid": "g-uid"}


def names(pod: dict[str, Any], *claims: dict[str, Any]) -> list[str]:
    by_key = {("ml", one["metadata"]["name"]): one for one in claims}
    return [one.display_name for one in claims_of_pod(pod, by_key)]


def test_claims_by_name_and_of_templates_in_the_pods_order() -> None:
    entries = ({"name": "shared", "resourceClaimName": "s"}, TEMPLATE)
    assert names(pod(*entries), claim("c", owner=POD), claim("s")) == ["ml/s", "ml/c"]


def test_a_claim_that_is_not_needed() -> None:
    assert names(pod(TEMPLATE, made=None)) == []


def test_a_claim_of_the_pods_group() -> None:
    assert names(pod(TEMPLATE, group="gang"), claim("c", owner=GROUP)) == ["ml/c"]


def test_a_pod_without_claims() -> None:
    assert names(pod()) == []


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ([], "does not exist"),
        ([claim("c", owner=POD, deletionTimestamp="2026-01-01T00:00:00Z")], "is being deleted"),
        ([claim("c")], "made for neither"),
        ([claim("c", owner=POD | {"uid": "another"})], "made for neither"),
        ([claim("c", owner=GROUP)], "made for neither"),
    ],
    ids=["missing", "ending", "nobody's", "of another pod of that name", "of a group in which the pod is not"],
)
def test_no_node_is_tried_with_a_claim_that_is(there: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(PodClaimError, match=message) as raised:
        names(pod(TEMPLATE), *there)
    assert raised.value.claim == "gpu"


def test_no_node_is_tried_before_the_claim_is_made() -> None:
    waiting = pod(TEMPLATE) | {"status": {}}
    with pytest.raises(PodClaimError, match="not been made"):
        names(waiting)
