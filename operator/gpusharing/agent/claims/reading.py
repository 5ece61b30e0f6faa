"""Claims as the kubelet names them, and as the API has them."""

from dataclasses import dataclass

from gpusharing.agent.state.models import PreparedClaim
from gpusharing.api.dra import ResourceClaim
from gpusharing.core.claims import allocation
from gpusharing.core.publishing.narrowing import Holder
from gpusharing.kube.kinds import RESOURCE_CLAIMS
from gpusharing.kube.transport import Api, ApiError


class PrepareError(Exception):
    """This claim cannot be prepared. The message reaches the pod's events."""


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """A claim as the kubelet names it."""

    uid: str
    namespace: str
    name: str

    @property
    def display_name(self) -> str:
        return f"{self.namespace}/{self.name}"


class ClaimReader:
    def __init__(self, api: Api, *, driver: str) -> None:
        self._api = api
        self._driver = driver

    async def read(self, ref: ClaimRef) -> ResourceClaim:
        """With devices of ours."""
        claim = await self._api.get(RESOURCE_CLAIMS, ref.name, ref.namespace)
        if claim.metadata.uid != ref.uid:
            raise PrepareError(
                f"claim {ref.display_name}: the kubelet asks for uid {ref.uid}, but the claim of this name has "
                f"uid {claim.metadata.uid}: it was deleted and made again; delete the pod"
            )
        if not allocation.results(claim, self._driver):
            raise PrepareError(
                f"claim {ref.display_name} has no device of driver {self._driver} allocated: delete the pod, "
                "so that it is scheduled again"
            )
        return claim

    async def find(self, ref: ClaimRef) -> ResourceClaim | None:
        """None if there is none of this uid, or it holds nothing of ours."""
        try:
            return await self.read(ref)
        except PrepareError:
            return None
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    async def holds(self, prepared: PreparedClaim, holder: Holder) -> bool:
        """Whether the API says that a prepared claim has this very device."""
        claim = await self.find(ClaimRef(prepared.uid, prepared.namespace, prepared.name))
        # The same device of another pool is another device.
        held = {
            (device.pool, device.device, device.share_id)
            for device in prepared.devices
            if (device.device, device.share_id) == (holder.device, holder.share_id)
        }
        return claim is not None and any(
            (result.pool, result.device, result.share_id) in held for result in allocation.results(claim, self._driver)
        )
