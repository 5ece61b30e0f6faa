"""NVIDIA's opaque device configurations (resource.nvidia.com/v1beta1), decoded as strictly as their driver does."""

from typing import Annotated, Any, Literal

import pydantic
from pydantic.alias_generators import to_camel

from gpusharing.api import strict_json
from gpusharing.api.sharing import Interval

API_VERSION = "resource.nvidia.com/v1beta1"


class InvalidConfigError(ValueError):
    """The parameters are not a configuration that this driver knows. The message says which field and what to do."""


class _Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel)


class TimeSlicingConfig(_Strict):
    interval: Interval = Interval.DEFAULT


class MpsConfig(_Strict):
    default_active_thread_percentage: Annotated[int, pydantic.Field(strict=True, ge=0, le=100)] | None = None
    default_pinned_device_memory_limit: str | int | None = None
    default_per_device_pinned_memory_limit: dict[str, str | int] | None = None
    multi_user: bool | None = None


class GpuSharing(_Strict):
    strategy: Literal["TimeSlicing", "MPS"]
    time_slicing_config: TimeSlicingConfig | None = None
    mps_config: MpsConfig | None = None

    @pydantic.model_validator(mode="after")
    def _settings_belong_to_the_strategy(self) -> "GpuSharing":
        if self.strategy != "TimeSlicing" and self.time_slicing_config is not None:
            raise ValueError(f"timeSlicingConfig goes with strategy TimeSlicing, not with {self.strategy}: remove one")
        if self.strategy != "MPS" and self.mps_config is not None:
            raise ValueError(f"mpsConfig goes with strategy MPS, not with {self.strategy}: remove one")
        return self


class GpuConfig(_Strict):
    api_version: Literal["resource.nvidia.com/v1beta1"]
    kind: Literal["GpuConfig"]
    sharing: GpuSharing | None = None


class MigSharing(_Strict):
    strategy: Literal["TimeSlicing", "MPS"]
    mps_config: MpsConfig | None = None


class MigDeviceConfig(_Strict):
    api_version: Literal["resource.nvidia.com/v1beta1"]
    kind: Literal["MigDeviceConfig"]
    sharing: MigSharing | None = None


_KINDS: dict[str, type[GpuConfig] | type[MigDeviceConfig]] = {
    "GpuConfig": GpuConfig,
    "MigDeviceConfig": MigDeviceConfig,
}


def decode(parameters: Any) -> GpuConfig | MigDeviceConfig:
    if not isinstance(parameters, dict):
        raise InvalidConfigError("parameters must be an object")
    if repeated := strict_json.repeated_keys(parameters):
        raise InvalidConfigError(f"{repeated[0]} is given twice: keep one")
    if parameters.get("apiVersion") != API_VERSION:
        raise InvalidConfigError(f"apiVersion is {parameters.get('apiVersion')!r}: must be {API_VERSION!r}")
    kind = _KINDS.get(str(parameters.get("kind")))
    if kind is None:
        raise InvalidConfigError(f"kind is {parameters.get('kind')!r}: must be one of {', '.join(sorted(_KINDS))}")
    try:
        return kind.model_validate(parameters)
    except pydantic.ValidationError as error:
        raise InvalidConfigError("; ".join(_sentence(detail) for detail in error.errors())) from error


def _sentence(detail: Any) -> str:
    field = ".".join(str(part) for part in detail["loc"]) or "configuration"
    if detail["type"] == "extra_forbidden":
        return f"{field} is not a known field: remove it"
    if detail["type"] in {"literal_error", "enum"}:
        return f"{field} is {detail['input']!r}: must be {detail['ctx']['expected']}"
    if detail["type"] == "value_error":
        return str(detail["ctx"]["error"])
    return f"{field} is {detail['input']!r}: {detail['msg']}"
