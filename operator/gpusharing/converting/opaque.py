"""NVIDIA's opaque configs: those of its first driver to those of today."""

from ruamel.yaml.comments import CommentedMap

from gpusharing.api import names
from gpusharing.api.nvidia import API_VERSION
from gpusharing.converting.fields import Field
from gpusharing.converting.moving import rename
from gpusharing.converting.remarks import NotConvertibleError, shown

_FORMER = "gpu.nvidia.com/v1alpha1"
_KINDS = ("GpuConfig", "MigDeviceConfig")


def renew(config: Field) -> bool:
    """`config`: an entry of `devices.config`, or of a class. Whether it was a former one."""
    parameters = config.get("opaque", "parameters")
    if parameters is None or config.text_at("opaque", "driver") != names.DRIVER:
        return False
    if not isinstance(parameters.value, CommentedMap) or parameters.text_at("apiVersion") != _FORMER:
        return False
    kind = parameters["kind"]
    if kind.text not in _KINDS:
        raise kind.refusal(f"{shown(kind.text)} does not exist in {API_VERSION}", f"use {' or '.join(_KINDS)}")
    renew_sharing(parameters)
    parameters.map["apiVersion"] = API_VERSION
    return True


def renew_sharing(parameters: Field) -> None:
    """`timeSlice` is called `interval` now."""
    time_slicing = parameters.get("sharing", "timeSlicingConfig")
    if time_slicing is None or "timeSlice" not in time_slicing:
        return
    if "interval" in time_slicing:
        raise _both(time_slicing)
    rename(time_slicing.map, "timeSlice", "interval")


def _both(time_slicing: Field) -> NotConvertibleError:
    return time_slicing.refusal("has timeSlice and interval", "remove timeSlice")
