"""What the agent of a node reports."""

from typing import Annotated

from pydantic import Field

from gpusharing.api.base import Numerous, keyed_by
from gpusharing.api.meta import Conditions
from gpusharing.api.sharing.device_settings import DeviceSettings
from gpusharing.api.sharing.gpu_models import GpuModel
from gpusharing.api.sharing.gpu_status import GpuStatus
from gpusharing.api.text import Name


class ClaimStatus(Numerous):
    uid: Name
    """The ResourceClaim."""
    claim: Annotated[str, Field(max_length=317)]
    """Its namespace and name, for people."""
    settings: tuple[DeviceSettings, ...] = ()
    """What was applied for it."""


class NodeSharingStatus(Numerous):
    """Written by the node's agent."""

    observed_generation: int | None = None
    """The generation of the spec that the agent acts on."""
    boot_id: Annotated[str | None, Field(alias="bootID", max_length=253)] = None
    """The boot of the node that this was seen in."""
    models: Annotated[tuple[GpuModel, ...], Field(max_length=16, json_schema_extra=keyed_by("model"))] = ()
    """The models of its GPUs, as far as they can be cut."""
    gpus: Annotated[tuple[GpuStatus, ...], Field(max_length=64, json_schema_extra=keyed_by("uuid"))] = ()
    """The GPUs of the node."""
    claims: Annotated[tuple[ClaimStatus, ...], Field(json_schema_extra=keyed_by("uid"))] = ()
    """The claims that are prepared."""
    conditions: Conditions = ()
    """Ready."""
