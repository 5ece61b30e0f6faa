"""The device classes of a policy."""

from typing import Annotated

from pydantic import Field

from gpusharing.api.base import ApiModel
from gpusharing.api.sharing.rules import rule, validated

# A name with a domain that is not Kubernetes' own, as the API server asks of extended resources.
_EXTENDED_RESOURCE = "^([a-z0-9]([a-z0-9-]*[a-z0-9])?[.])+[a-z0-9-]*[a-z0-9]/[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$"
_ExtendedResource = Annotated[
    str,
    Field(
        max_length=190,
        json_schema_extra=validated(
            rule(
                f"self.matches('{_EXTENDED_RESOURCE}') && !self.split('/')[0].endsWith('kubernetes.io')"
                " && size(self.split('/')[1]) <= 63 && !self.startsWith('requests.')",
                'must be a name with your own domain, such as "example.com/gpu-shared"; kubernetes.io is not allowed',
            )
        ),
    ),
]


class ExtendedResources(ApiModel):
    exclusive: _ExtendedResource | None = None
    """Extended resource of device class <policy>-exclusive (whole GPUs). Example: example.com/gpu."""
    time_slicing: _ExtendedResource | None = None
    """Extended resource of device class <policy>-timeslicing. Example: example.com/gpu-shared."""
    mps: _ExtendedResource | None = None
    """Extended resource of device class <policy>-mps. Example: example.com/gpu-mps."""
    mig: _ExtendedResource | None = None
    """Extended resource of device class <policy>-mig. Example: example.com/gpu-mig."""


class Classes(ApiModel):
    create: bool = True
    """If true, the operator creates a device class for each offer: <policy>-exclusive, <policy>-timeslicing,
    <policy>-mps and <policy>-mig. Each selects only the GPUs of this policy. Default: true."""
    extended_resources: ExtendedResources = ExtendedResources()
    """Extended resource names for these device classes. A container asks for such a name in resources.limits and
    needs no claim. Example: {timeSlicing: example.com/gpu-shared}."""
