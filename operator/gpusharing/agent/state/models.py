"""What the agent writes down: claims that it has prepared, GPUs that it has changed, what it has published."""

from typing import Annotated

from pydantic import Field

from gpusharing.api.base import ApiModel
from gpusharing.api.sharing.device_settings import DeviceSettings
from gpusharing.api.sharing.node_spec import GpuSharing, PolicyReference
from gpusharing.api.sharing.offers import Interval, Offers
from gpusharing.api.sharing.tenants import Allowance
from gpusharing.core.devices.gpu import Board, MigInstance
from gpusharing.core.devices.offered import AS_FOUND
from gpusharing.core.publishing.gpu_health import History
from gpusharing.core.publishing.narrowing import Publication, restarted
from gpusharing.nvidia.facts import DeviceNode, MigPlace


class WallHook(ApiModel):
    """A program of ours on the host that holds a container to its memory before it starts, and where it is told how."""

    program: str
    directory: str


class MetadataMount(ApiModel):
    """What tells a container of its devices: a file of ours on the host, and where it is found in the container."""

    file: str
    path: str


class PreparedDevice(ApiModel):
    """One allocation result of a claim, and the answer that the kubelet got for it."""

    request: str
    pool: str
    device: str
    share_id: Annotated[str | None, Field(alias="shareID")] = None
    uuid: str
    admin: bool = False
    settings: DeviceSettings
    consumed: Annotated[dict[str, str], Field(default_factory=dict)]
    """What it takes of the capacities of a shared device."""
    cdi_devices: tuple[str, ...]
    mig_uuid: str | None = None
    """Of a MIG instance, once it is there."""
    device_nodes: tuple[DeviceNode, ...] = ()
    """What a container is given beside the devices of NVIDIA's CDI spec."""
    mps_pipe: str | None = None
    """Where its MPS daemon is met."""
    mps_shm: str | None = None
    """What is /dev/shm to that daemon and its clients."""
    wall: WallHook | None = None
    """Of a device whose settings limit its memory."""
    metadata: MetadataMount | None = None
    """Of the first device of a request, for all of them."""


class PreparedClaim(ApiModel):
    uid: str
    namespace: str
    name: str
    allocation_hash: str
    pod_claim_name: str | None = None
    users: tuple[str, ...] = ()
    """Who had it reserved when it was prepared, for whoever reads the log."""
    devices: tuple[PreparedDevice, ...]

    @property
    def display_name(self) -> str:
        return f"{self.namespace}/{self.name}"


class GpuSettings(ApiModel):
    time_slice: Interval | None = None
    compute_mode: str | None = None


class MadeInstance(ApiModel):
    """A MIG instance that we have made, or are about to make at a place that was free."""

    profile_id: int
    start: int
    uuid: str | None = None

    @property
    def place(self) -> MigPlace:
        return MigPlace(self.profile_id, self.start)


class GpuJournal(ApiModel):
    """What we have changed on a GPU, written down before it is changed: with what it goes back to."""

    settings: GpuSettings | None = None
    """How it was set."""
    mig_mode: bool | None = None
    """Whether MIG was on."""
    instances: tuple[MadeInstance, ...] = ()
    """What there is to destroy."""


class GpuRecord(ApiModel):
    """The slot is a GPU's for good; the rest is what it was last told and what is published for it."""

    slot: int
    decided: GpuSharing | None = None
    """The operator's last word on it."""
    published_offers: Offers = AS_FOUND
    published_policy: PolicyReference | None = None
    published_allow: Allowance | None = None
    published_configured: bool = False
    publication: Publication | None = None
    """The devices that are published. Absent: nobody knows."""
    mig_mode_found: bool | None = None
    """MIG mode before we switched it where the driver keeps it over a reboot; elsewhere the journal has it."""

    def after_reboot(self, *, now: float) -> "GpuRecord":
        """Its times are of a clock that began anew."""
        if self.publication is None:
            return self
        return self.model_copy(update={"publication": restarted(self.publication, now=now)})


class GpuHealth(ApiModel):
    """What the hardware does not tell again."""

    history: History


class SeenGpu(ApiModel):
    """A GPU as it was last seen: one that is not found any more is described so."""

    board: Board
    mig_enabled: bool
    instances: tuple[MigInstance, ...] = ()


class Generation(ApiModel):
    """The generation of a pool; it never goes back, also when the kubelet has deleted all slices."""

    value: int = 0
