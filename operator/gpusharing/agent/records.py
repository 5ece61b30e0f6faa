"""What the agent must know after it was killed: kept in memory for speed, and on disk before anybody relies on it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from gpusharing.agent.files import Envelopes, boot_id
from gpusharing.api.base import ApiModel
from gpusharing.api.sharing import DeviceSettings, GpuSharing, Interval, Offers, PolicyReference
from gpusharing.core import publication
from gpusharing.core.publication import OfferedGpu


class PreparedDevice(ApiModel):
    """One allocation result of a claim, and the answer that the kubelet got for it."""

    request: str
    pool: str
    device: str
    share_id: Annotated[str | None, Field(alias="shareID")] = None
    uuid: str
    admin: bool = False
    settings: DeviceSettings
    cdi_devices: tuple[str, ...]


class PreparedClaim(ApiModel):
    uid: str
    namespace: str
    name: str
    allocation_hash: str
    devices: tuple[PreparedDevice, ...]

    @property
    def display_name(self) -> str:
        return f"{self.namespace}/{self.name}"


class GpuBefore(ApiModel):
    """How a GPU was set before we changed it; what it goes back to."""

    time_slice: Interval | None = None
    compute_mode: str | None = None


class GpuRecord(ApiModel):
    """The slot is a GPU's for good; the rest is what it was last told and what is published for it."""

    slot: int
    decided: GpuSharing | None = None
    """The operator's last word on it."""
    published_offers: Offers = publication.AS_FOUND
    published_policy: PolicyReference | None = None
    published_configured: bool = False


class Generation(ApiModel):
    """The generation of the node's pool; it never goes back, also when the kubelet has deleted all slices."""

    value: int = 0


class Records:
    def __init__(self, directory: Path) -> None:
        boot = boot_id()
        self.boot_id = boot
        # After a reboot the kubelet asks anew for every claim of a pod that is still there, and the hardware has gone
        # back by itself.
        self._claims_on_disk = Envelopes(directory / "claims", PreparedClaim, boot=boot, survives_reboot=False)
        self._before_on_disk = Envelopes(directory / "before", GpuBefore, boot=boot, survives_reboot=False)
        self._gpus_on_disk = Envelopes(directory / "gpus", GpuRecord, boot=boot, survives_reboot=True)
        self._pool_on_disk = Envelopes(directory / "pool", Generation, boot=boot, survives_reboot=True)
        self._claims = {key: claim for key, claim, _ in self._claims_on_disk.read_all()}
        self._gpus = {key: record for key, record, _ in self._gpus_on_disk.read_all()}
        self._generation = max((value.value for _, value, _ in self._pool_on_disk.read_all()), default=0)
        self._before: dict[str, GpuBefore] = {}
        for key, before, is_this_boot in self._before_on_disk.read_all():
            if is_this_boot:
                self._before[key] = before
            else:
                # A reboot has set everything back already.
                self._before_on_disk.delete(key)

    @property
    def claims(self) -> Mapping[str, PreparedClaim]:
        return self._claims

    def claims_on(self, uuid: str) -> list[tuple[PreparedClaim, PreparedDevice]]:
        """Who holds the GPU. Whoever only looks (admin access) is not among them."""
        return [
            (claim, device)
            for claim in self._claims.values()
            for device in claim.devices
            if device.uuid == uuid and not device.admin
        ]

    def put_claim(self, claim: PreparedClaim) -> None:
        self._claims_on_disk.write(claim.uid, claim)
        self._claims[claim.uid] = claim

    def drop_claim(self, uid: str) -> None:
        self._claims_on_disk.delete(uid)
        self._claims.pop(uid, None)

    def before(self, uuid: str) -> GpuBefore | None:
        return self._before.get(uuid)

    @property
    def changed_gpus(self) -> list[str]:
        return list(self._before)

    def put_before(self, uuid: str, before: GpuBefore) -> None:
        self._before_on_disk.write(uuid, before)
        self._before[uuid] = before

    def drop_before(self, uuid: str) -> None:
        self._before_on_disk.delete(uuid)
        self._before.pop(uuid, None)

    def gpu(self, uuid: str) -> GpuRecord:
        """The record of a GPU; one that is new here gets the lowest slot that no GPU ever had."""
        if uuid not in self._gpus:
            taken = {record.slot for record in self._gpus.values()}
            slot = next(number for number in range(len(taken) + 1) if number not in taken)
            self.put_gpu(uuid, GpuRecord(slot=slot))
        return self._gpus[uuid]

    def put_gpu(self, uuid: str, record: GpuRecord) -> None:
        if self._gpus.get(uuid) != record:
            self._gpus_on_disk.write(uuid, record)
            self._gpus[uuid] = record

    @property
    def generation(self) -> int:
        return self._generation

    def put_generation(self, value: int) -> None:
        if value != self._generation:
            self._pool_on_disk.write("generation", Generation(value=value))
            self._generation = value


def publish(record: GpuRecord, offered: OfferedGpu) -> GpuRecord:
    return record.model_copy(
        update={
            "published_offers": offered.offers,
            "published_policy": offered.policy,
            "published_configured": offered.configured,
        }
    )
