"""The status of a node, as its agent reports it."""

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
    """The UID of the ResourceClaim."""
    claim: Annotated[str, Field(max_length=317)]
    """The namespace and name of the ResourceClaim."""
    settings: tuple[DeviceSettings, ...] = ()
    """The settings that the agent has applied for the claim."""


class NodeSharingStatus(Numerous):
    """The GPUs of a node and their state. Written by the agent."""

    observed_generation: int | None = None
    """The generation of the spec that the agent has read."""
    boot_id: Annotated[str | None, Field(alias="bootID", max_length=253)] = None
    """The boot ID of the node when the agent wrote this status."""
    models: Annotated[tuple[GpuModel, ...], Field(max_length=16, json_schema_extra=keyed_by("model"))] = ()
    """The GPU models of this node that support MIG, with their profiles."""
    gpus: Annotated[tuple[GpuStatus, ...], Field(max_length=64, json_schema_extra=keyed_by("uuid"))] = ()
    """The GPUs of the node."""
    claims: Annotated[tuple[ClaimStatus, ...], Field(json_schema_extra=keyed_by("uid"))] = ()
    """The claims that are prepared on this node, with the settings that the agent applied."""
    conditions: Conditions = ()
    """Conditions of the agent: Ready."""
