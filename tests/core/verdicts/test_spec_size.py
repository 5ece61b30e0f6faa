"""What is written for a node fits into etcd, whatever there is on it, and says what agents wait for."""

from dataclasses import replace
from typing import Final

import pytest

from building import DRIVER, claim, config, decided, gpu_config, gpu_status, node_sharing, policy, result, time_slicing
from gpusharing.api import strict_json
from gpusharing.api.dra import ResourceClaim
from gpusharing.api.meta import LabelSelector
from gpusharing.api.sharing.node_spec import NodeSharingSpec, Verdict
from gpusharing.api.sharing.offers import Interval
from gpusharing.api.sharing.tenants import Tenants
from gpusharing.core.state.node_view import NodeView
from gpusharing.core.verdicts.spec_size import LARGEST_SPEC, fitted
from gpusharing.core.verdicts.tenancy import Registry
from gpusharing.core.verdicts.verdicts import claim_entries

_GPUS: Final = 8
_TENANTS: Final = Tenants(namespaces=LabelSelector(match_labels={"team": "x"}))
_OTHER_INTERVAL: Final = gpu_config({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Short"}})
_WRONG: Final = gpu_config({"x" * 64: ["\U0001f600" * 64]})


def spec_of(
    clients: int, *, restricted: int = 0, parameters: object = _OTHER_INTERVAL, longest: bool = True
) -> tuple[NodeSharingSpec, NodeView]:
    """So many clients on each GPU, of which so many are restricted."""
    shared = policy("p" * 52, offers=time_slicing(256, Interval.LONG))
    tenants_only = policy("t" * 52, offers=time_slicing(256, Interval.LONG), tenants=_TENANTS)

    def client(slot: int, number: int) -> ResourceClaim:
        pool = f"n1/{tenants_only.metadata.name}" if slot < restricted else "n1"
        request = f"{'r' * 63}/{'s' * 63}" if longest else "gpu"
        name = f"{slot}-{number}-{'c' * 240 if longest else ''}"
        held = result(f"gpu-{slot}-timeslicing", request=request, pool=pool, share_id="7" * 36)
        made = claim(name, held, namespace="n" * 63, configs=[config(parameters)])
        return replace(made, metadata=replace(made.metadata, uid=f"uid-{slot}-{number}-".ljust(36, "u")))

    claims = tuple(client(slot, number) for slot in range(_GPUS) for number in range(clients))
    gpus = tuple(decided(slot, tenants_only if slot < restricted else shared) for slot in range(_GPUS))
    sharing = node_sharing(gpus=[gpu_status(slot) for slot in range(_GPUS)])
    view = NodeView(sharing=sharing, labels={}, driver=DRIVER, claims=claims, namespaces={"n" * 63: {"team": "x"}})
    registry = Registry({tenants_only.metadata.name: _TENANTS.namespaces}, view.namespaces)
    return NodeSharingSpec(gpus=gpus, claims=claim_entries(view, gpus, registry, {})), view


def size(spec: NodeSharingSpec) -> int:
    return len(strict_json.canonical(spec.to_json()))


def test_what_fits_stays_as_it_is() -> None:
    spec, view = spec_of(8)
    assert fitted(spec, view) is spec


@pytest.mark.parametrize("restricted", [0, 2])
@pytest.mark.parametrize("parameters", [_OTHER_INTERVAL, _WRONG], ids=["allowed", "denied"])
def test_as_many_as_a_node_can_have_fit(restricted: int, parameters: object) -> None:
    spec, view = spec_of(256, restricted=restricted, parameters=parameters)
    assert size(spec) > 2**20
    short = fitted(spec, view)
    assert size(short) <= LARGEST_SPEC
    said = {entry.uid: entry for entry in short.claims}
    for slot in range(restricted):
        for number in range(256):
            before = next(entry for entry in spec.claims if entry.uid.startswith(f"uid-{slot}-{number}-"))
            after = said[before.uid]
            assert (after.verdict, after.settings) == (before.verdict, before.settings)
    assert all(entry.reason for entry in short.claims if entry.verdict is Verdict.DENIED)


def test_no_more_is_left_out_than_has_to_be() -> None:
    spec, view = spec_of(256, longest=False)
    short = fitted(spec, view)
    assert size(spec) > LARGEST_SPEC
    assert LARGEST_SPEC * 0.99 < size(short) <= LARGEST_SPEC
    assert len(short.claims) == len(spec.claims)
    assert fitted(short, view) == short
