"""The device classes of a policy, and the templates of claims for them."""

from typing import Annotated

from pydantic import ConfigDict, Field

from gpusharing.api.base import ApiModel, keyed_by
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.amounts import AMOUNT
from gpusharing.api.sharing.offers import MIG_PROFILE
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


_OF_MODES = ("exclusive", "timeslicing", "mps", "mig")


class TemplateVariant(ApiModel):
    """A template of claims that ask for other amounts than the offer's defaults."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            rule(
                "has(self.profile) == (self.mode == 'MIG')",
                "profile must be set with mode MIG, and only with it",
                field_path=".profile",
            ),
            rule(
                "!has(self.memory) || self.mode != 'MIG'",
                "memory cannot be set with mode MIG: the profile says how much",
                field_path=".memory",
            ),
            rule(
                "!has(self.threads) || self.mode == 'MPS'",
                "threads can be set with mode MPS only",
                field_path=".threads",
            ),
            rule(
                "!has(self.shares) || self.mode in ['TimeSlicing', 'MPS']",
                "shares can be set with modes TimeSlicing and MPS only",
                field_path=".shares",
            ),
        )
    )

    name: Annotated[
        str,
        Field(
            min_length=1,
            max_length=32,
            json_schema_extra=validated(
                rule(
                    f"self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$') && !(self in {list(_OF_MODES)})",
                    "must consist of lower case letters, digits and '-', and be none of " + ", ".join(_OF_MODES),
                )
            ),
        ),
    ]
    """The template is named <policy>-<name>: lower case letters, digits and '-', at most 32 of them."""
    mode: Sharing
    """The mode that its claims ask for: Exclusive, TimeSlicing, MPS or MIG. The policy must offer it."""
    # More digits would be more than the API server counts.
    memory: Annotated[str, *AMOUNT, Field(max_length=8)] | None = None
    """GPU memory that its claims ask for, in Mi, Gi or Ti ("16Gi"). With mode Exclusive, the least that the GPU has.
    Default: the offer's default."""
    threads: Annotated[int, Field(ge=1, le=100)] | None = None
    """Multiprocessors that its claims ask for, in percent of the GPU, from 1 to 100. Default: the offer's default."""
    shares: Annotated[int, Field(ge=1, le=256)] | None = None
    """Shares of one GPU that its claims ask for, from 1 to 256. Default: 1."""
    profile: Annotated[str, *MIG_PROFILE] | None = None
    """The MIG profile that its claims ask for ("1g.10gb"). Required with mode MIG."""


class Classes(ApiModel):
    model_config = ConfigDict(
        json_schema_extra=validated(
            rule(
                "!has(self.templateVariants) || size(self.templateVariants) == 0 || self.templates",
                "templateVariants requires templates: true",
                field_path=".templateVariants",
            )
        )
    )

    create: bool = True
    """If true, the operator creates a device class for each offer: <policy>-exclusive, <policy>-timeslicing,
    <policy>-mps and <policy>-mig. Each selects only the GPUs of this policy. Default: true."""
    extended_resources: ExtendedResources = ExtendedResources()
    """Extended resource names for these device classes. A container asks for such a name in resources.limits and
    needs no claim. Example: {timeSlicing: example.com/gpu-shared}."""
    templates: bool = False
    """If true, the operator creates a ResourceClaimTemplate for each offer in the namespaces of tenants.namespaces:
    <policy>-exclusive, <policy>-timeslicing, <policy>-mps and <policy>-mig, each with the offer's defaults. Requires
    tenants.namespaces, and classes.create: true. Default: false."""
    template_variants: Annotated[
        tuple[TemplateVariant, ...], Field(max_length=16, json_schema_extra=keyed_by("name"))
    ] = ()
    """More templates, up to 16, with other amounts. Example: [{name: large, mode: MPS, memory: 32Gi, threads: 50}]."""
