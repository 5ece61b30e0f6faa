"""GPU models that support MIG, as an agent reports them."""

from typing import Annotated

from pydantic import Field

from gpusharing.api.base import ApiModel, keyed_by
from gpusharing.api.text import Name


class MigProfilePlaces(ApiModel):
    """A MIG profile: how much of the GPU an instance takes, and where."""

    name: Name
    """The name of the profile, such as 1g.10gb."""
    id: int
    """The profile ID of the driver."""
    slices: int
    """Compute slices of one instance."""
    memory: int
    """Memory of one instance, in MiB."""
    size: Annotated[int, Field(ge=1, le=64)]
    """Memory slices of one instance."""
    starts: Annotated[tuple[Annotated[int, Field(ge=0, le=63)], ...], Field(min_length=1, max_length=64)]
    """The memory slices at which an instance can start."""
    multiprocessors: int = 0
    """Multiprocessors of one instance."""
    copy_engines: int = 0
    """Copy engines of one instance."""
    decoders: int = 0
    """Video decoders of one instance."""
    encoders: int = 0
    """Video encoders of one instance."""
    jpeg_engines: int = 0
    """JPEG engines of one instance."""
    ofa_engines: int = 0
    """Optical flow engines of one instance."""


class GpuModel(ApiModel):
    """A GPU model that supports MIG."""

    model: Name
    """The product name of the GPU."""
    switch_resets: bool
    """True if switching the MIG mode resets the GPU."""
    profiles: Annotated[tuple[MigProfilePlaces, ...], Field(max_length=32, json_schema_extra=keyed_by("name"))]
    """The MIG profiles of this model."""
