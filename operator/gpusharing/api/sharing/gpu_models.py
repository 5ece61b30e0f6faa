"""Models of GPUs that can be cut, as an agent reports them."""

from typing import Annotated

from pydantic import Field

from gpusharing.api.base import ApiModel, keyed_by
from gpusharing.api.text import Name


class MigProfilePlaces(ApiModel):
    """A kind of MIG instance: what it takes of the GPU, and where."""

    name: Name
    """As in 1g.10gb."""
    id: int
    """The number that the driver knows it by."""
    slices: int
    """Of the GPU's computing."""
    memory: int
    """In MiB."""
    size: Annotated[int, Field(ge=1, le=64)]
    """How many of the GPU's memory slices it takes."""
    starts: Annotated[tuple[Annotated[int, Field(ge=0, le=63)], ...], Field(min_length=1, max_length=64)]
    """The memory slices that it can begin at."""
    multiprocessors: int = 0
    """Multiprocessors that it takes."""
    copy_engines: int = 0
    """Copy engines."""
    decoders: int = 0
    """Video decoders."""
    encoders: int = 0
    """Video encoders."""
    jpeg_engines: int = 0
    """JPEG engines."""
    ofa_engines: int = 0
    """Optical flow engines."""


class GpuModel(ApiModel):
    """A model of GPU that can be cut."""

    model: Name
    """The product name."""
    switch_resets: bool
    """Whether a change of MIG mode resets the GPU."""
    profiles: Annotated[tuple[MigProfilePlaces, ...], Field(max_length=32, json_schema_extra=keyed_by("name"))]
    """The kinds of MIG instances that it can be cut into."""
