"""Reserved devices beyond a quota, by what is allocated."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import DRIVER, claim, node_sharing, result
from gpusharing.api.dra import ResourceClaim
from gpusharing.api.meta import key_of
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import ClaimSharing, NodeSharingSpec, Verdict
from gpusharing.api.sharing.node_status import ClaimStatus
from gpusharing.api.sharing.tenants import Quota
from gpusharing.core.state.accounts import Account, Accounts
from gpusharing.core.verdicts.quota import Counting, Excess

MINE = Account("search", "mine")
SHARE, WHOLE, MIG = "gpu-0-timeslicing", "gpu-1", "gpu-2-mig-1g10gb-19-0"


def made(name: str, minute: int, *devices_: str, pool: str = "n1/search", namespace: str = "mine") -> ResourceClaim:
    results = [result(device, pool=pool) for device in devices_]
    return claim(name, *results, namespace=namespace, made_at=f"2026-11-18T12:{minute:02d}:00Z")


def accounts(claims: Sequence[ResourceClaim]) -> Accounts:
    found = Accounts(DRIVER)
    for item in claims:
        found.replace(None, item)
    return found


def excess(claims: Sequence[ResourceClaim], quota: Quota | None, *sharings: NodeSharing) -> Excess:
    known = {key_of(sharing): sharing for sharing in sharings}
    return Counting(accounts(claims), known, DRIVER).excess(MINE, quota)


@pytest.mark.parametrize(
    ("claims", "quota", "denied"),
    [
        pytest.param([made("a", 1, SHARE), made("b", 2, SHARE)], Quota(time_slicing=2), [], id="as many as permitted"),
        pytest.param([made("a", 2, SHARE), made("b", 1, SHARE)], Quota(time_slicing=1), ["a"], id="the youngest"),
        pytest.param([made("b", 1, SHARE), made("a", 1, SHARE)], Quota(time_slicing=1), ["b"], id="of the same age"),
        pytest.param([made("a", 1, SHARE)], Quota(time_slicing=0), ["a"], id="none is permitted"),
        pytest.param([made("a", 1, SHARE)], Quota(mps=0, exclusive=0, mig=0), [], id="of other modes"),
        pytest.param([made("a", 1, SHARE, SHARE), made("b", 2, SHARE)], Quota(time_slicing=2), ["b"], id="two in one"),
        pytest.param(
            [made("a", 1, SHARE), made("b", 2, SHARE, SHARE), made("c", 3, SHARE)],
            Quota(time_slicing=2), ["b"], id="one that fits after one that does not",
        ),
        pytest.param(
            [made("a", 1, WHOLE, SHARE), made("b", 2, WHOLE), made("c", 3, SHARE), made("d", 4, MIG)],
            Quota(exclusive=1, time_slicing=1, mig=1), ["b", "c"], id="by mode",
        ),
        pytest.param([made("a", 1, SHARE), made("b", 2, SHARE, pool="n2/search")], Quota(time_slicing=1), ["b"],
                     id="on several nodes"),
        pytest.param([made("a", 1, SHARE), made("b", 2, SHARE, pool="n1/ads")], Quota(time_slicing=1), [],
                     id="of other policies"),
        pytest.param([made("a", 1, SHARE), made("b", 2, SHARE, pool="n1")], Quota(time_slicing=1), [],
                     id="that are not reserved"),
        pytest.param([made("a", 1, SHARE), made("b", 2, SHARE, namespace="other")], Quota(time_slicing=1), [],
                     id="of other namespaces"),
        pytest.param([made("a", 1, SHARE), made("b", 2, "nic-0", "gpu-x")], Quota(exclusive=0, time_slicing=1), [],
                     id="names that we do not give"),
        pytest.param([made("a", 1, SHARE), made("b", 2, SHARE)], None, [], id="no quota"),
    ],
)  # fmt: skip
def test_who_is_beyond(claims: list[ResourceClaim], quota: Quota | None, denied: list[str]) -> None:
    found = excess(claims, quota)
    assert sorted(found) == [f"uid-{name}" for name in denied]


def said(name: str, verdict: Verdict) -> ClaimSharing:
    return ClaimSharing(uid=f"uid-{name}", claim=f"mine/{name}", allocation_hash="", verdict=verdict)


@pytest.mark.parametrize(
    ("sharing", "denied"),
    [
        (node_sharing("n1"), ["uid-b"]),
        (node_sharing("n1", spec=NodeSharingSpec(claims=(said("b", Verdict.ALLOWED),))), ["uid-a"]),
        (node_sharing("n1", spec=NodeSharingSpec(claims=(said("b", Verdict.DENIED),))), ["uid-b"]),
        (node_sharing("n1", claims=[ClaimStatus(uid="uid-b", claim="mine/b")]), ["uid-a"]),
        (node_sharing("n2", spec=NodeSharingSpec(claims=(said("b", Verdict.ALLOWED),))), ["uid-b"]),
    ],
    ids=["nothing was said", "allowed", "denied", "prepared", "said of another node"],
)
def test_what_was_allowed_comes_first(sharing: NodeSharing, denied: list[str]) -> None:
    found = excess([made("a", 1, SHARE), made("b", 2, SHARE)], Quota(time_slicing=1), sharing)
    assert sorted(found) == denied


def test_who_looks_has_nothing() -> None:
    looks = claim("a", result(SHARE, pool="n1/search", admin_access=True), namespace="mine")
    assert excess([looks], Quota(time_slicing=0)) == {}


def test_it_says_which_field_permits_how_many() -> None:
    found = excess([made("a", 1, SHARE), made("b", 2, SHARE)], Quota(time_slicing=1))
    assert found == {
        "uid-b": "SharingPolicy search: spec.tenants.quota.timeSlicing permits namespace mine 1, and older claims have "
        "them"
    }


held = st.builds(
    made,
    st.sampled_from("abc"),
    st.integers(0, 3),
    st.sampled_from([SHARE, WHOLE, MIG]),
    pool=st.sampled_from(["n1/search", "n2/search", "n1/ads", "n1"]),
    namespace=st.sampled_from(["mine", "other"]),
)


@given(st.lists(st.tuples(st.booleans(), held), max_size=12))
def test_accounts_are_what_is_there_after_any_history(history: list[tuple[bool, ResourceClaim]]) -> None:
    lived, there = Accounts(DRIVER), dict[tuple[str, str], ResourceClaim]()
    for goes, item in history:
        before = there.pop(key_of(item), None)
        after = None if goes else item
        if after is not None:
            there[key_of(item)] = after
        if before or after:
            lived.replace(before, after)
    fresh = accounts(list(there.values()))
    assert set(lived) == set(fresh)
    for account in fresh:
        assert {id(one) for one in lived.claims(account)} == {id(one) for one in fresh.claims(account)}
        assert all(lived.total(account, sharing) == fresh.total(account, sharing) for sharing in Sharing)
