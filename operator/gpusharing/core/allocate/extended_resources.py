"""Devices that containers ask for as extended resources: the scheduler makes a claim of it, for each node its own."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gpusharing.api.dra import DeviceClass
from gpusharing.core.allocate.requests import Claim, Request, Wanted
from gpusharing.core.quantities import whole

IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
"""Before the name of any class."""

_NATIVE: Final = "kubernetes.io/"
_QUOTA: Final = "requests."

Container = Mapping[str, Any]


class NotProvidedError(Exception):
    """Neither the node's device plugins nor a class provide an extended resource: the pod does not fit there."""

    def __init__(self, resource: str) -> None:
        super().__init__(f"neither the node nor a device class provides {resource}")
        self.resource = resource


class ExtendedResources:
    """Which class provides an extended resource."""

    def __init__(self, classes: Mapping[str, DeviceClass]) -> None:
        self._by_name = {f"{IMPLICIT}{name}": name for name in classes}
        explicit = [(one.spec.extended_resource_name, one.metadata) for one in classes.values()]
        # The newest class has a name that several claim; of two of one age the first in the alphabet.
        for resource, metadata in sorted(
            sorted(explicit, key=lambda item: item[1].name, reverse=True),
            key=lambda item: item[1].creation_timestamp,
        ):
            if resource:
                self._by_name[resource] = metadata.name

    def claim(self, pod: Mapping[str, Any], allocatable: Mapping[str, int]) -> Claim | None:
        """What the scheduler adds to the claims of the pod on a node, as the last one. None: nothing.

        `pod` as the API server has it; `allocatable`: the node's extended resources, of device plugins. Raises
        NotProvidedError.
        """
        spec = pod["spec"]
        containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        asked = sorted({name for one in containers for name, amount in _requests(one) if _is_extended(name) and amount})
        if not any(name in self._by_name for name in asked):
            return None
        by_classes = [name for name in asked if name in self._by_name and not allocatable.get(name)]
        for name in asked:
            if name not in by_classes and name not in allocatable:
                raise NotProvidedError(name)
        count = len(spec.get("initContainers") or ())
        wanted = [one for name in by_classes for one in _wanted(name, self._by_name[name], containers, count)]
        if not wanted:
            return None
        metadata = pod["metadata"]
        return Claim(
            namespace=metadata.get("namespace") or "",
            name=f"{metadata['name']}-extended-resources",
            uid=metadata.get("uid") or "",
            requests=tuple(
                Request(name=one.name, alternatives=(one,)) for one in sorted(wanted, key=lambda one: one.name)
            ),
        )


def _is_extended(name: str) -> bool:
    if name.startswith(IMPLICIT):
        return True
    return "/" in name and _NATIVE not in name and not name.startswith(_QUOTA)


def _requests(container: Container) -> Iterator[tuple[str, int]]:
    resources = container.get("resources") or {}
    # The API server makes requests of limits.
    amounts = (resources.get("limits") or {}) | (resources.get("requests") or {})
    for name, amount in amounts.items():
        yield name, whole(str(amount))


def _wanted(resource: str, of_class: str, containers: Sequence[Container], init_count: int) -> list[Wanted]:
    """Of each container that stays, and of the init container that needs most beside what those that follow have."""
    lasting: dict[int, Wanted] = {}
    for index, container in enumerate(containers):
        if index >= init_count or container.get("restartPolicy") == "Always":
            count = dict(_requests(container)).get(resource, 0)
            if count:
                lasting[index] = _of_container(resource, of_class, index, container, count)
    most: Wanted | None = None
    for index, container in enumerate(containers[:init_count]):
        if container.get("restartPolicy") == "Always":
            continue
        reused = sum(one.count for later, one in lasting.items() if later >= index)
        missing = dict(_requests(container)).get(resource, 0) - reused
        if missing > 0 and (most is None or missing > most.count):
            most = _of_container(resource, of_class, index, container, missing)
    return [*([most] if most else ()), *lasting.values()]


def _of_container(resource: str, of_class: str, index: int, container: Container, count: int) -> Wanted:
    names = sorted(name for name, _ in _requests(container))
    return Wanted(name=f"container-{index}-request-{names.index(resource)}", device_class=of_class, count=count)
