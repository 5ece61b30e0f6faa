"""What people with fewer rights are shown: others are counted, not named."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from explaining.bed import DRIVER, Json, request
from explaining.scenes import SHARED, WHOLE, claim, node, node_sharing, pod, result, slices, world
from gpusharing.explaining import lean, pods
from gpusharing.explaining.explanation import Explanation, State
from gpusharing.explaining.scene import Scene
from gpusharing.snapshots.world import World

SHARE = "gpu-0-timeslicing"


def of_other_namespace(number: int) -> Json:
    share = result("node-1", SHARE, {"shares": "1", "memory": "20Gi"}) | {"shareID": f"share-{number}"}
    return claim(f"secret-{number}", request(SHARED), share, namespace="other", user=f"secret-pod-{number}")


def seen_by_tenant(everything: World, *, visible: Sequence[Json]) -> Scene:
    """As a person sees it who may list claims of namespace ml only."""
    seen = replace(everything, only_namespace={"claims": "ml"}, claims=visible)
    return Scene.of_file(seen)


def explained(asked: Json, others: Sequence[Json]) -> tuple[Explanation, Explanation]:
    """To an administrator, and to the tenant."""
    mine = claim("mine", asked)
    everything = world(
        nodes=[node("node-1")],
        slices=slices("node-1", only=SHARE.__eq__),
        claims=[*others, mine],
        pods=[pod("train-7", "mine")],
        node_sharings=[node_sharing("node-1", *((one, SHARE) for one in others))],
    )
    (waiting,) = everything.pods
    return pods.explain(waiting, Scene.of_file(everything)), pods.explain(
        waiting, seen_by_tenant(everything, visible=[mine])
    )


@pytest.mark.parametrize(
    ("asked", "code", "number"),
    [(request(WHOLE), "GSH0207", 2), (request(SHARED, capacity={"requests": {"memory": "60Gi"}}), "GSH0206", 3)],
)
def test_others_are_counted(asked: Json, code: str, number: int) -> None:
    to_all, to_tenant = explained(asked, [of_other_namespace(each) for each in range(number)])
    assert (to_all.findings[0].code, to_tenant.findings[0].code) == (code, code)
    assert "other/secret-pod-0" in to_all.findings[0].sentence
    assert f"{number} claims" in to_tenant.findings[0].sentence
    assert "secret" not in str(to_tenant.to_json())
    assert to_tenant.findings[-1].code == "GSH0101"
    assert to_tenant.state is State.WAITS


@pytest.mark.parametrize("field", ["slices", "classes", "nodes"])
def test_without_the_right_to_see_devices_the_scheduler_is_quoted(field: str) -> None:
    found = world(claims=[claim("mine", request(WHOLE))], pods=[pod("train-7", "mine")], unread={field: "forbidden"})
    explanation = pods.explain(found.pods[0], Scene.of_file(found))
    assert [one.code for one in explanation.findings] == ["GSH0101"]
    assert explanation.state is State.WAITS
    assert "cannot allocate all claims" in explanation.scheduler


def test_a_claim_that_may_not_be_read_is_not_missing() -> None:
    found = world(pods=[pod("train-7", "mine")], slices=slices("node-1"), unread={"claims": "forbidden"})
    explanation = pods.explain(found.pods[0], Scene.of_file(found))
    assert [one.code for one in explanation.findings] == ["GSH0101"]


def test_what_cannot_be_read_is_left_out_and_counted() -> None:
    claims = lean.Lean(lean.Claim)
    good = claim("good", request(WHOLE), result("node-1", "gpu-0"))
    bad = {"metadata": {"name": 7}}
    page = b'{"items":[' + b",".join([_json(good), _json(bad)]) + b"]}"
    (found,) = claims.of_page(page)
    assert (found.key, found.results[0].driver, claims.unreadable) == (("ml", "good"), DRIVER, 1)
    assert claims.of_page(b'{"items":null}') == ()


def _json(value: Json) -> bytes:
    return json.dumps(value).encode()
