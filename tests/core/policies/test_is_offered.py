"""Is this device offered on this GPU? The one answer for rollouts, verdicts and Events."""

from typing import NamedTuple

import pytest

from building import EXCLUSIVE, decided, gpu_status, policy, time_slicing
from gpusharing.api.sharing.gpu_models import GpuModel, MigProfilePlaces
from gpusharing.api.sharing.gpu_status import GpuStatus, MigInstanceStatus, MigMode
from gpusharing.api.sharing.node_spec import GpuSharing
from gpusharing.api.sharing.offers import MigOffer, MpsMemory, MpsOffer, MpsThreads, Offers
from gpusharing.core.policies.is_offered import is_offered
from gpusharing.core.state.node_view import Place

WHOLE, SHARE, MPS = "gpu-0", "gpu-0-timeslicing", "gpu-0-mps"
SMALL, LATER_SMALL, LARGE = "gpu-0-mig-1g10gb-19-0", "gpu-0-mig-1g10gb-19-6", "gpu-0-mig-3g40gb-9-0"
FOUND_CUT = gpu_status(0).model_copy(update={"mig_mode": MigMode(enabled=True, found=True)})
SWITCHED = gpu_status(0).model_copy(update={"mig_mode": MigMode(enabled=True, found=False)})
MODEL = GpuModel(
    model=gpu_status(0).model,
    switch_resets=False,
    profiles=(
        MigProfilePlaces(name="1g.10gb", id=19, slices=1, memory=9856, size=1, starts=(0, 1, 2, 3, 4, 5, 6)),
        MigProfilePlaces(name="3g.40gb", id=9, slices=3, memory=40320, size=4, starts=(0, 4)),
    ),
)
BY_PROFILE = Offers(mig=MigOffer(profiles=("1g.10gb",)))
LAYOUT = Offers(mig=MigOffer(layout={"3g.40gb": 1, "1g.10gb": 1}))
ONLY_MPS = Offers(
    mps=MpsOffer(max_clients=2, memory=MpsMemory(default="1Gi", min="1Gi"), threads=MpsThreads(default=10))
)
INSTANCES = (MigInstanceStatus(profile="3g.40gb", start=4), MigInstanceStatus(profile="1g.10gb", start=0))


def offering(offers: Offers, *, restricted: bool = False) -> GpuSharing:
    return decided(0, policy("p", offers=offers)).model_copy(update={"restricted": restricted, "offers": offers})


class Case(NamedTuple):
    device: str
    entry: GpuSharing
    offered: bool
    pool: str = "n1"
    status: GpuStatus = gpu_status(0)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case(WHOLE, offering(EXCLUSIVE), True), id="whole"),
        pytest.param(Case(SHARE, offering(EXCLUSIVE), False), id="a share of a whole GPU"),
        pytest.param(Case(SHARE, offering(time_slicing()), True), id="a share"),
        pytest.param(Case(WHOLE, offering(time_slicing()), False), id="all of a shared GPU"),
        pytest.param(Case(MPS, offering(ONLY_MPS), True), id="MPS"),
        pytest.param(Case(MPS, offering(time_slicing()), False), id="MPS beside time-slicing alone"),
        pytest.param(Case(SMALL, offering(BY_PROFILE), True), id="an instance of an offered profile"),
        pytest.param(Case(LARGE, offering(BY_PROFILE), False), id="of another profile"),
        pytest.param(Case(SMALL, offering(EXCLUSIVE), False), id="an instance of a whole GPU"),
        pytest.param(Case("gpu-0-mig-1g10gb-19-99", offering(BY_PROFILE), True), id="a place is the agent's to know"),
        pytest.param(Case(LATER_SMALL, offering(LAYOUT), False), id="outside of a layout that is to be cut"),
        pytest.param(
            Case(LATER_SMALL, offering(LAYOUT), True, status=SWITCHED.model_copy(update={"instances": INSTANCES})),
            id="a layout that is there: the instances are what the agent made",
        ),
        pytest.param(Case("nonsense", offering(EXCLUSIVE), False), id="no name of ours"),
        pytest.param(Case(WHOLE, decided(0, None), True), id="as found"),
        pytest.param(Case(SHARE, decided(0, None), False), id="a share of a GPU as found"),
        pytest.param(Case(WHOLE, decided(0, None), False, status=FOUND_CUT), id="all of a GPU that was found cut"),
        pytest.param(Case(SMALL, decided(0, None), True, status=FOUND_CUT), id="an instance that was found"),
        pytest.param(Case(SMALL, decided(0, None), False, status=SWITCHED), id="an instance of ours, nobody's now"),
        pytest.param(Case(WHOLE, offering(EXCLUSIVE, restricted=True), True, "n1/p"), id="in the pool of its tenants"),
        pytest.param(Case(WHOLE, offering(EXCLUSIVE, restricted=True), False), id="in the pool for everybody"),
        pytest.param(Case(WHOLE, offering(EXCLUSIVE), False, "n1/p"), id="in a pool of tenants it has no more"),
        pytest.param(Case(WHOLE, offering(EXCLUSIVE, restricted=True), False, "n1/q"), id="in another policy's pool"),
    ],
)
def test_is_offered(case: Case) -> None:
    assert is_offered(Place(case.pool, case.device), case.entry, case.status, (MODEL,)) == case.offered
