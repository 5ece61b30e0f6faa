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
                'must be a name with a domain of yours ("example.com/gpu-shared")',
            )
        ),
    ),
]


class ExtendedResources(ApiModel):
    exclusive: _ExtendedResource | None = None
    """Of the class of whole GPUs."""
    time_slicing: _ExtendedResource | None = None
    """Of the class of shares of GPUs that take turns."""
    mps: _ExtendedResource | None = None
    """Of the class of shares of GPUs that compute at the same time."""
    mig: _ExtendedResource | None = None
    """Of the class of isolated parts of GPUs."""


class Classes(ApiModel):
    create: bool = True
    """Whether there are device classes for this policy's GPUs alone: <policy>-exclusive, -timeslicing, -mps, -mig."""
    extended_resources: ExtendedResources = ExtendedResources()
    """Names by which pods can ask for these classes as resources of a container, without a claim."""
