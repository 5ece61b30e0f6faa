"""Claims that the caller may not read: NodeSharings say what they have, and explanations only count them."""

from collections.abc import Iterable, Iterator

from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.explaining import lean


def hidden_claims(
    visible: Iterable[lean.Claim], node_sharings: Iterable[NodeSharing], driver: str
) -> Iterator[lean.Claim]:
    """Without names. What they consume of a share is not known: it counts as the default."""
    known = {claim.metadata.uid for claim in visible}
    for sharing in node_sharings:
        pools = {gpu.uuid: gpu.pool or sharing.metadata.name for gpu in sharing.status.gpus}
        for gpu in sharing.spec.gpus:
            for one in gpu.allocated:
                if one.claim in known:
                    continue
                result = lean.Result(
                    driver=driver,
                    pool=pools.get(gpu.uuid, sharing.metadata.name),
                    device=one.device,
                    share_id=one.share_id,
                )
                status = lean.ClaimStatus(lean.Allocation(lean.DevicesOfClaim([result])))
                yield lean.Claim(lean.Named(name="", uid=f"{one.claim}/{one.device}/{one.share_id}"), status)
