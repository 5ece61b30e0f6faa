"""What is read from ResourceQuotas, whoever wrote them."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from building import policy
from gpusharing.api.core import ResourceQuota
from gpusharing.core.figures import rows
from gpusharing.core.figures.quota_use import quota_use
from gpusharing.core.figures.rows import OTHERS
from gpusharing.kube.kinds import RESOURCE_QUOTAS

P, Q = policy("p"), policy("q")


def counted(policy: str, mode: str = "timeslicing") -> str:
    return f"{policy}-{mode}.deviceclass.resource.k8s.io/devices"


def quota(
    policy: str = "p",
    namespace: str = "a",
    *,
    hard: Any,
    used: Mapping[str, Any] | None = None,
    owner: str | None = None,
) -> ResourceQuota:
    """As the API server sends it."""
    reference = {"kind": "SharingPolicy", "name": policy, "uid": owner or f"uid-{policy}"}
    metadata = {"name": f"gpusharing-{policy}", "namespace": namespace, "ownerReferences": [reference]}
    status = {} if used is None else {"hard": hard, "used": used}
    return RESOURCE_QUOTAS.from_json({"metadata": metadata, "spec": {"hard": hard}, "status": status})


@pytest.mark.parametrize(
    ("quotas", "expected"),
    [
        ([quota(hard={counted("p"): "4"}, used={counted("p"): "1"})], {("p", "a", "TimeSlicing"): (1, 4)}),
        # The controller has not counted yet.
        ([quota(hard={counted("p"): "4"})], {("p", "a", "TimeSlicing"): (0, 4)}),
        (
            [
                quota(
                    hard={counted("p"): "1k", counted("p", "mig"): "0"},
                    used={counted("p"): "20", counted("p", "mig"): "0", "pods": "7"},
                )
            ],
            {("p", "a", "TimeSlicing"): (20, 1000), ("p", "a", "MIG"): (0, 0)},
        ),
        (
            [quota(hard={counted("p"): "4"}), quota("q", "b", hard={counted("q", "exclusive"): "2"})],
            {("p", "a", "TimeSlicing"): (0, 4), ("q", "b", "Exclusive"): (0, 2)},
        ),
        # Of a policy that is not there, of no policy, of somebody else, and about something else.
        ([quota("gone", hard={counted("gone"): "4"})], {}),
        ([quota("", hard={counted(""): "4"})], {}),
        ([quota(hard={counted("p"): "4"}, owner="another")], {}),
        ([quota(hard={"pods": "4", counted("q"): "4"}, used={"pods": "1"})], {}),
        ([quota(hard=True)], {}),
        ([quota(hard={counted("p"): "?" * 5000}, used={counted("p"): {}})], {("p", "a", "TimeSlicing"): (0, 0)}),
    ],
    ids=itertools.count(),
)
def test_each_is_what_kubernetes_counts(
    quotas: Sequence[ResourceQuota], expected: Mapping[tuple[str, str, str], tuple[int, int]]
) -> None:
    found = quota_use([P, Q], quotas)
    assert found.used.keys() == found.hard.keys()
    assert {tuple(row): (found.used[row], found.hard[row]) for row in found.used} == expected


def test_those_that_have_the_fewest_left_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MOST_ROWS", 1)
    use = {"a": ("1", "4"), "b": ("4", "4"), "c": ("9", "90")}
    found = quota_use(
        [P],
        [
            quota(namespace=name, hard={counted("p"): hard}, used={counted("p"): used})
            for name, (used, hard) in use.items()
        ],
    )
    assert found.used == {("p", "b", "TimeSlicing"): 4, ("p", OTHERS, "TimeSlicing"): 10}
    assert found.hard == {("p", "b", "TimeSlicing"): 4, ("p", OTHERS, "TimeSlicing"): 94}
