"""`kind: SharingTest`: the form of the file. It is no object of Kubernetes (docs/test.md)."""

import re
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

import pydantic
from pydantic import AfterValidator, Field
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from gpusharing import cel
from gpusharing.api.names import Sharing
from gpusharing.core.quantities import billionths
from gpusharing.sim.drivers import DEFAULT

KIND: Final = "SharingTest"
MOST_NODES: Final = 1000
MOST_PODS: Final = 1000
_OLDEST_MINOR: Final = 36
_GPUS: Final = re.compile(r"[^,:]{1,64}(:[0-9]{1,3})?(,[^,:]{1,64}(:[0-9]{1,3})?){0,31}")
_NAME: Final = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"


class Outcome(StrEnum):
    FITS = "Fits"
    """The pod gets its devices."""
    WAITS = "Waits"
    """No node has them now, or ever."""
    DENIED = "Denied"
    """A policy does not let it have them."""


class _Form(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(
        frozen=True, strict=True, extra="forbid", alias_generator=to_camel, use_attribute_docstrings=True
    )


def _version(text: str) -> str:
    match text.split("."):
        case ["1", minor] if minor.isdecimal() and _OLDEST_MINOR <= int(minor) <= cel.NEWEST_MINOR:
            return text
        case _:
            message = f'must be a version from "1.{_OLDEST_MINOR}" to "1.{cel.NEWEST_MINOR}", in quotes'
            raise PydanticCustomError("version", "{message}", {"message": message})


def _manifest(value: Any) -> Any:
    if isinstance(value, dict) or (isinstance(value, str) and value):
        return value
    raise PydanticCustomError("manifest", "must be the path of a file or folder, or an object")


def _amount(text: str) -> str:
    try:
        billionths(text)
    except ValueError:
        raise PydanticCustomError("amount", "must be an amount such as 8Gi, or 25") from None
    return text


def _gpus(text: str) -> str:
    if not _GPUS.fullmatch(text):
        raise PydanticCustomError("gpus", "must be models with counts, such as H100-80GB:8 or A100-40GB:4,T4:1")
    return text


Name = Annotated[str, Field(pattern=_NAME, max_length=253)]
Labels = dict[str, str]
Manifest = Annotated[Any, AfterValidator(_manifest)]
"""A path, from the folder of the test, or an object."""


class Metadata(_Form):
    name: Name


class Nodes(_Form):
    """Nodes that are alike."""

    name: Name = "node"
    """Of several: with -1, -2, ... after it."""
    count: Annotated[int, Field(ge=1, le=MOST_NODES)] = 1
    gpus: Annotated[str, AfterValidator(_gpus)]
    """Models with counts: H100-80GB:8, or A100-40GB:4,T4:1."""
    labels: Labels = Field(default_factory=dict)
    driver: str = DEFAULT
    """The version of NVIDIA's driver."""


class Namespace(_Form):
    name: Name
    labels: Labels = Field(default_factory=dict)


class Expectation(_Form):
    outcome: Outcome
    because: Annotated[str, Field(min_length=1)] | None = None
    """Of Waits and Denied: the code of a finding, or a part of what is said."""
    mode: Sharing | None = None
    policy: str | None = None
    """Of each GPU that the pod gets."""
    node: str | None = None

    @pydantic.model_validator(mode="after")
    def _is_consistent(self) -> "Expectation":
        places = [name for name in ("mode", "policy", "node") if getattr(self, name) is not None]
        if self.outcome is Outcome.FITS and self.because is not None:
            raise PydanticCustomError("consistent", "because is for Waits and Denied, not for Fits")
        if self.outcome is not Outcome.FITS and places:
            message = f"{places[0]} is for Fits, not for {self.outcome}"
            raise PydanticCustomError("consistent", "{message}", {"message": message})
        return self


class Pods(_Form):
    """Pods that are tried one after the other, and what is expected of each."""

    manifest: Manifest = None
    """With Pods, or what makes pods, their claims and their templates."""
    device_class: Annotated[Name | None, Field(alias="class")] = None
    """In place of a manifest: each pod has a claim for one device of this class."""
    capacity: dict[str, Annotated[str, AfterValidator(_amount)]] = Field(default_factory=dict)
    """What that claim asks for of the device: memory: 8Gi."""
    name: Name | None = None
    """Of a manifest: only the object with this name. Of a class: the name of the pods."""
    namespace: Name = "default"
    """If the manifest names none."""
    count: Annotated[int, Field(ge=1, le=MOST_PODS)] = 1
    """So many pods of each."""
    expect: Expectation

    @pydantic.model_validator(mode="after")
    def _has_one_source(self) -> "Pods":
        if (self.manifest is None) == (self.device_class is None):
            raise PydanticCustomError("source", "needs either manifest or class")
        if self.capacity and self.device_class is None:
            raise PydanticCustomError("source", "capacity is for class; in a manifest, the claim has it")
        return self


class Change(_Form):
    """What is applied afterwards."""

    policies: list[Manifest] = Field(default_factory=list)
    prune: bool = False
    """Whether policies that are not given are deleted."""
    disturbed: Annotated[int, Field(ge=0)] | None = None
    """How many claims of running pods the change has to wait for, or evicts."""
    pods: list[Pods] = Field(default_factory=list)
    """Tried after it."""


class SharingTest(_Form):
    api_version: Literal["gpusharing.dev/v1alpha1"]
    kind: Literal["SharingTest"]
    metadata: Metadata
    kubernetes: Annotated[str, AfterValidator(_version)] | None = None
    """By default the one of the snapshot, or the newest that is known."""
    nodes: list[Nodes] = Field(default_factory=list)
    snapshot: Annotated[str, Field(min_length=1)] | None = None
    """The path of a file of `gpusharing snapshot`, in place of nodes."""
    full_menus: Annotated[int, Field(ge=0, le=64)] = 1
    """The agents' --full-menus."""
    namespaces: list[Namespace] = Field(default_factory=list)
    """Others have no labels."""
    policies: list[Manifest] = Field(default_factory=list)
    """With SharingPolicies, Namespaces and DeviceClasses; other kinds in the files are left out."""
    pods: list[Pods] = Field(default_factory=list)
    changes: list[Change] = Field(default_factory=list)

    @pydantic.model_validator(mode="after")
    def _is_whole(self) -> "SharingTest":
        if bool(self.nodes) == (self.snapshot is not None):
            raise PydanticCustomError("whole", "needs either nodes or snapshot")
        if sum(one.count for one in self.nodes) > MOST_NODES:
            message = f"has more than {MOST_NODES} nodes"
            raise PydanticCustomError("whole", "{message}", {"message": message})
        return self

    @property
    def minor(self) -> int | None:
        return int(self.kubernetes.removeprefix("1.")) if self.kubernetes else None
