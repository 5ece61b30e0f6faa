"""Small GPUs that are offered in several ways, and claims that want different ones: all that the model goes through."""

from dataclasses import replace
from typing import Final

from building import gpu
from core.narrowing.model import POLICY, Setting
from gpusharing.api.sharing.node_spec import PolicyReference
from gpusharing.api.sharing.offers import (
    ExclusiveOffer,
    MigOffer,
    MpsMemory,
    MpsOffer,
    MpsThreads,
    Offers,
    TimeSlicingOffer,
)
from gpusharing.core.devices.gpu import Engines, MigProfile, MigSupport
from gpusharing.core.devices.offered import OfferedGpu

WHOLE: Final = "gpu-0"
SHARE: Final = "gpu-0-timeslicing"
MPS: Final = "gpu-0-mps"
HALF: Final = "gpu-0-mig-1g40gb-*"
ALL_OF_IT: Final = "gpu-0-mig-2g80gb-*"
ADMIN: Final = "admin:gpu-0"

# Two places for halves and one for both together: the smallest GPU on which placements overlap.
_MIG: Final = MigSupport(
    profiles=(
        MigProfile(
            id=19,
            name="1g.40gb",
            slices=1,
            memory_mib=40000,
            engines=Engines(multiprocessors=1),
            size=1,
            starts=(0, 1),
        ),
        MigProfile(
            id=5,
            name="2g.80gb",
            slices=2,
            memory_mib=80000,
            engines=Engines(multiprocessors=2),
            size=2,
            starts=(0,),
        ),
    ),
    switch_resets_gpu=False,
)
_TIME_SLICING: Final = TimeSlicingOffer(max_clients=2)
_MPS: Final = MpsOffer(max_clients=2, memory=MpsMemory(default="8Gi"), threads=MpsThreads(default=25))
_HALVES: Final = ("1g.40gb",)
_ALL_OF_IT: Final = ("2g.80gb",)
_BOTH: Final = (*_HALVES, *_ALL_OF_IT)


def offered(
    *, exclusive: bool = True, time_slicing: bool = False, mps: bool = False, mig: tuple[str, ...] = ()
) -> OfferedGpu:
    offers = Offers(
        exclusive=ExclusiveOffer() if exclusive else None,
        time_slicing=_TIME_SLICING if time_slicing else None,
        mps=_MPS if mps else None,
        mig=MigOffer(profiles=mig) if mig else None,
    )
    reference = PolicyReference(name=POLICY, generation=1)
    return OfferedGpu(gpu=gpu(0, mig=_MIG), offers=offers, policy=reference, configured=True)


def for_tenants(anybodys: OfferedGpu) -> OfferedGpu:
    return replace(anybodys, restricted=True)


WHOLE_ONLY: Final = offered()
ONLY_SHARES: Final = offered(exclusive=False, time_slicing=True)
SHARES: Final = offered(time_slicing=True)
SHARES_OF_BOTH_KINDS: Final = offered(exclusive=False, time_slicing=True, mps=True)
PARTS: Final = offered(mig=_BOTH)
ONLY_PARTS: Final = offered(exclusive=False, mig=_BOTH)
HALVES: Final = offered(mig=_HALVES)
SHARES_AND_HALVES: Final = offered(exclusive=False, time_slicing=True, mig=_HALVES)
EVERYTHING: Final = offered(time_slicing=True, mps=True, mig=_ALL_OF_IT)

SETTINGS: Final = {
    "shares and whole": Setting(offered=SHARES, claims=(WHOLE, SHARE, SHARE)),
    "more claims, nothing is lost": Setting(offered=SHARES, claims=(WHOLE, WHOLE, SHARE, SHARE), losses=0, late=1),
    "claims outlive their pods": Setting(offered=SHARES, claims=(WHOLE, SHARE), reused=True, hears=True),
    "an admin looks": Setting(offered=SHARES, claims=(ADMIN, WHOLE, SHARE), late=1),
    "shares of both kinds": Setting(offered=SHARES_OF_BOTH_KINDS, claims=(MPS, SHARE, SHARE)),
    "parts that overlap": Setting(offered=ONLY_PARTS, claims=(HALF, HALF, ALL_OF_IT)),
    "parts that outlive their pods": Setting(offered=ONLY_PARTS, claims=(HALF, ALL_OF_IT), reused=True),
    "halves and whole": Setting(offered=HALVES, claims=(WHOLE, HALF, HALF), late=1, hears=True),
    "shares and halves": Setting(offered=SHARES_AND_HALVES, claims=(HALF, SHARE, SHARE), late=1, hears=True),
    "parts and whole": Setting(offered=PARTS, claims=(WHOLE, HALF, ALL_OF_IT), losses=0, late=1),
    "shares are not offered any more": Setting(
        offered=SHARES, later=(WHOLE_ONLY,), claims=(WHOLE, SHARE, SHARE), late=1
    ),
    "shares instead of whole": Setting(offered=WHOLE_ONLY, later=(ONLY_SHARES,), claims=(WHOLE, SHARE), late=1),
    "halves instead of shares": Setting(offered=ONLY_SHARES, later=(HALVES,), claims=(HALF, SHARE), losses=0, late=1),
    "shares for tenants": Setting(offered=SHARES, later=(for_tenants(SHARES),), claims=(WHOLE, SHARE, SHARE), late=1),
    "whole for tenants, shares for all": Setting(
        offered=for_tenants(WHOLE_ONLY), later=(ONLY_SHARES,), claims=(WHOLE, SHARE, SHARE)
    ),
    "for tenants, and back": Setting(
        offered=SHARES, later=(for_tenants(SHARES), SHARES), claims=(WHOLE, SHARE), late=1
    ),
    "a new node": Setting(offered=SHARES, claims=(WHOLE, SHARE), silent=True),
    "a new node for tenants": Setting(offered=for_tenants(SHARES), claims=(WHOLE, SHARE, SHARE), silent=True, late=1),
    "a new node for tenants, and then for all": Setting(
        offered=for_tenants(SHARES), later=(WHOLE_ONLY,), claims=(WHOLE, SHARE), silent=True, late=1
    ),
    "parts for tenants": Setting(
        offered=ONLY_PARTS, later=(for_tenants(ONLY_PARTS),), claims=(HALF, ALL_OF_IT), reused=True, late=1
    ),
    "everything": Setting(offered=EVERYTHING, claims=(ALL_OF_IT, MPS), losses=0, late=1),
}

# As above, with the closing guard instead of the long wait.
FENCED: Final = {
    "shares for tenants": Setting(
        offered=ONLY_SHARES,
        later=(for_tenants(ONLY_SHARES),),
        claims=(SHARE, SHARE),
        losses=0,
        late=1,
        writes=2,
        force=False,
    ),
    "shares instead of whole": Setting(
        offered=WHOLE_ONLY, later=(ONLY_SHARES,), claims=(WHOLE, SHARE), losses=0, late=1, writes=2, force=False
    ),
    "for tenants, and back": Setting(
        offered=WHOLE_ONLY,
        later=(for_tenants(WHOLE_ONLY), WHOLE_ONLY),
        claims=(WHOLE, WHOLE),
        losses=0,
        late=1,
        writes=3,
        servers=1,
        calm=True,
        returns=1,
        force=False,
    ),
    "for tenants, back, and the agent forgets": Setting(
        offered=WHOLE_ONLY,
        later=(for_tenants(WHOLE_ONLY), WHOLE_ONLY),
        claims=(WHOLE, WHOLE),
        losses=1,
        late=1,
        writes=2,
        servers=1,
        calm=True,
        returns=1,
        force=False,
    ),
    "whole instead of shares, and back": Setting(
        offered=ONLY_SHARES,
        later=(WHOLE_ONLY, ONLY_SHARES),
        claims=(WHOLE, SHARE),
        losses=0,
        late=1,
        writes=2,
        servers=1,
        calm=True,
        returns=1,
        force=False,
    ),
    "whole instead of parts, and back": Setting(
        offered=ONLY_PARTS,
        later=(WHOLE_ONLY, ONLY_PARTS),
        claims=(HALF, HALF),
        losses=0,
        late=1,
        writes=2,
        servers=1,
        calm=True,
        returns=1,
        force=False,
    ),
    "for tenants, back and again": Setting(
        offered=WHOLE_ONLY,
        later=(for_tenants(WHOLE_ONLY), WHOLE_ONLY, for_tenants(WHOLE_ONLY)),
        claims=(WHOLE, WHOLE),
        losses=0,
        late=1,
        writes=2,
        servers=1,
        calm=True,
        returns=1,
        force=False,
    ),
    "somebody deletes the guard": Setting(
        offered=WHOLE_ONLY,
        later=(for_tenants(WHOLE_ONLY),),
        claims=(WHOLE, WHOLE),
        losses=0,
        late=1,
        writes=2,
        deleted=True,
        force=False,
    ),
}
