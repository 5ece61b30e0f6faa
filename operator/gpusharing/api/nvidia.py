"""NVIDIA's opaque device configurations (resource.nvidia.com/v1beta1), decoded as strictly as their driver does."""

import re
import reprlib
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import pydantic
from pydantic.alias_generators import to_camel

from gpusharing.api import strict_json
from gpusharing.api.sharing.offers import Interval
from gpusharing.api.text import clip

API_VERSION = "resource.nvidia.com/v1beta1"


class InvalidConfigError(ValueError):
    """The parameters are not a configuration that this driver knows. The message says which field and what to do."""


class _Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, defer_build=True)


def _default_if_null(value: Any) -> Any:
    # To their decoder, in Go, an optional field that is null is an absent one.
    return Interval.DEFAULT if value is None else value


class TimeSlicingConfig(_Strict):
    interval: Annotated[Interval, pydantic.BeforeValidator(_default_if_null)] = Interval.DEFAULT


_LONGEST_QUANTITY: Final = 64
# As their decoder reads one: with a sign, with spaces around it, even without digits. Where it is used, it is refused.
_QUANTITY: Final = re.compile(r" *([+-]?[0-9]*\.?[0-9]*(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?) *")


def _quantity(value: Any) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    text = str(value) if is_number or isinstance(value, str) else ""
    found = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST_QUANTITY else None
    if found is None or not found[1]:
        raise ValueError("must be a quantity, such as 8Gi")
    return found[1].removeprefix("+")


Quantity = Annotated[str, pydantic.BeforeValidator(_quantity)]


class MpsConfig(_Strict):
    default_active_thread_percentage: Annotated[int, pydantic.Field(strict=True, ge=-(2**63), lt=2**63)] | None = None
    default_pinned_device_memory_limit: Quantity | None = None
    default_per_device_pinned_memory_limit: (
        Annotated[dict[Annotated[str, pydantic.Field(max_length=64)], Quantity], pydantic.Field(max_length=64)] | None
    ) = None
    """By the GPU's uuid, or by its index among the GPUs that the config is for, in the order of their uuids."""
    multi_user: Annotated[bool, pydantic.Field(strict=True)] | None = None


def _require_possible(config: MpsConfig | None) -> None:
    threads = config.default_active_thread_percentage if config else None
    if threads is not None and not 0 <= threads <= 100:
        raise ValueError(f"mpsConfig.defaultActiveThreadPercentage is {threads}: must be from 0 to 100")


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
        _require_possible(self.mps_config)
        return self


class GpuConfig(_Strict):
    api_version: Literal["resource.nvidia.com/v1beta1"]
    kind: Literal["GpuConfig"]
    sharing: GpuSharing | None = None


class MigSharing(_Strict):
    strategy: Literal["TimeSlicing", "MPS"]
    mps_config: MpsConfig | None = None

    @pydantic.model_validator(mode="after")
    def _values_are_possible(self) -> "MigSharing":
        # Beside another strategy nobody reads them.
        if self.strategy == "MPS":
            _require_possible(self.mps_config)
        return self


class MigDeviceConfig(_Strict):
    api_version: Literal["resource.nvidia.com/v1beta1"]
    kind: Literal["MigDeviceConfig"]
    sharing: MigSharing | None = None


_KINDS: dict[str, type[GpuConfig] | type[MigDeviceConfig]] = {
    "GpuConfig": GpuConfig,
    "MigDeviceConfig": MigDeviceConfig,
}


# Tenants write the parameters and our status shows the messages: short and printable, whatever is in them.
_SHOWN_PROBLEMS: Final = 3
_LONGEST_VALUE: Final = 200
_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 64
_repr.maxlevel = _repr.maxdict = _repr.maxlist = 2


@dataclass(frozen=True, slots=True)
class Unusable:
    """What is kept of parameters that are no configuration."""

    problem: str


def understand(parameters: Any) -> GpuConfig | MigDeviceConfig | Unusable:
    """What `decode` takes in their place: it is small, whatever they are."""
    try:
        return decode(parameters)
    except InvalidConfigError as error:
        return Unusable(str(error))


def decode(parameters: Any) -> GpuConfig | MigDeviceConfig:
    match parameters:
        case GpuConfig() | MigDeviceConfig():
            return parameters
        case Unusable(problem):
            raise InvalidConfigError(problem)
        case dict():
            return _decode(parameters)
        case _:
            raise InvalidConfigError("parameters must be an object")


def _decode(parameters: dict[str, Any]) -> GpuConfig | MigDeviceConfig:
    if strict_json.is_too_deep(parameters):
        raise InvalidConfigError("parameters are nested too deeply: no configuration is")
    if repeated := strict_json.repeated_keys(parameters):
        raise InvalidConfigError(f"{_printable(repeated[0])} is given twice: keep one")
    if parameters.get("apiVersion") != API_VERSION:
        raise InvalidConfigError(f"apiVersion is {_shown(parameters.get('apiVersion'))}: must be {API_VERSION!r}")
    kind = _KINDS.get(str(parameters.get("kind")))
    if kind is None:
        raise InvalidConfigError(
            f"kind is {_shown(parameters.get('kind'))}: must be one of {', '.join(sorted(_KINDS))}"
        )
    try:
        return kind.model_validate(parameters)
    except pydantic.ValidationError as error:
        problems = [_sentence(detail) for detail in error.errors()]
        rest = len(problems) - _SHOWN_PROBLEMS
        more = [f"and {rest} more"] if rest > 0 else []
        raise InvalidConfigError("; ".join(problems[:_SHOWN_PROBLEMS] + more)) from error


def _sentence(detail: Any) -> str:
    field = _printable(".".join(str(part) for part in detail["loc"])) or "configuration"
    is_ = f"{field} is {_shown(detail['input'])}"
    match detail["type"]:
        case "missing":
            return f"{field} is missing: add it"
        case "extra_forbidden":
            return f"{field} is not a known field: remove it"
        case "literal_error" | "enum":
            return f"{is_}: must be {detail['ctx']['expected']}"
        case "model_type" | "dict_type":
            return f"{is_}: must be an object"
        case "value_error":
            return f"{field}: {detail['ctx']['error']}"
        case _:
            return f"{is_}: {detail['msg']}"


def _shown(value: Any) -> str:
    return clip(_repr.repr(value), _LONGEST_VALUE)


def _printable(name: str) -> str:
    return _shown(name)[1:-1]
