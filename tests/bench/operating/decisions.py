"""The decision by itself, without Kubernetes: from nothing, and when one thing has changed in a settled cluster."""

import gc
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from bench.operating.crowd import GPUS, node_name
from building import DRIVER, MINOR, NOW, claim, gpu_status, node, node_sharing, policy, reference, result
from building.incremental import decide, put
from gpusharing.api import names
from gpusharing.api.dra import ResourceClaim
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.core.decision.incremental import Decider
from gpusharing.core.intents import PatchStatus, ReplaceSpec
from gpusharing.core.state.cluster_state import Setup

_CLAIMS_OF_A_NODE: Final = 10
_CHANGED: Final = 100
_HOPPER: Final = 'device.attributes["gpu.nvidia.com"].architecture == "Hopper"'
_LARGE: Final = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) > 0'


class Seconds(NamedTuple):
    """Of the processor."""

    cold: float
    one_gpu: float
    one_claim: float


def measure(nodes: int) -> Seconds:
    policies = [
        policy("a", max_per_node=2, selectors=[_HOPPER, _LARGE]),
        policy("b", max_per_node="50%", priority=-1, selectors=[_HOPPER]),
        policy("c", priority=-2),
    ]
    known: list[Any] = [*policies]
    for number in range(nodes):
        name = node_name(number)
        gpus = [gpu_status(slot, node=name, in_force=reference(policies[2])) for slot in range(GPUS)]
        known += [node(name), node_sharing(name, gpus=gpus)]
        known += [_claim(name, place) for place in range(_CLAIMS_OF_A_NODE)]
    gc.collect()
    gc.disable()
    try:
        cold = min(_cold(known) for _ in range(3))
        decider = _settled(known)
        sharings = {item.metadata.name: item for item in known if isinstance(item, NodeSharing)}
        changed = [node_name(number * nodes // _CHANGED) for number in range(_CHANGED)]
        one_gpu = _each(decider, (lambda name=name: _with_less_memory(decider, sharings[name]) for name in changed))  # type: ignore[misc]
        one_claim = _each(decider, (lambda name=name: _claim(name, _CLAIMS_OF_A_NODE) for name in changed))  # type: ignore[misc]
    finally:
        gc.enable()
    return Seconds(cold, one_gpu, one_claim)


def _claim(node: str, place: int) -> ResourceClaim:
    return claim(f"{node}-{place}", result(names.time_sliced_device(place % GPUS), pool=node))


def _decider(known: Iterable[Any]) -> Decider:
    decider = Decider(Setup(driver=DRIVER, minor=MINOR))
    for item in known:
        put(decider.state, item)
    return decider


def _cold(known: Iterable[Any]) -> float:
    decider = _decider(known)
    begin = time.process_time()
    decide(decider, now=NOW)
    return time.process_time() - begin


def _settled(known: Iterable[Any]) -> Decider:
    decider = _decider(known)
    while _write(decider):
        pass
    return decider


def _write(decider: Decider) -> bool:
    """As if the API server had taken what is missing; whether anything was."""
    written = False
    for intent in decide(decider, now=NOW):
        match intent:
            case ReplaceSpec(sharing, spec):
                put(decider.state, sharing.model_copy(update={"spec": spec}))
                written = True
            case PatchStatus(before, status):
                put(decider.state, before.model_copy(update={"status": status}))
                written = True
    return written


def _with_less_memory(decider: Decider, sharing: NodeSharing) -> NodeSharing:
    view = decider.state.view(sharing.metadata.name)
    assert view is not None
    first, *others = view.sharing.status.gpus
    gpus = (first.model_copy(update={"memory": "48Gi"}), *others)
    status = view.sharing.status.model_copy(update={"gpus": gpus})
    return view.sharing.model_copy(update={"status": status})


def _each(decider: Decider, changes: Iterable[Callable[[], Any]]) -> float:
    seconds = []
    for change in changes:
        changed = change()
        begin = time.process_time()
        put(decider.state, changed)
        decide(decider, now=NOW)
        seconds.append(time.process_time() - begin)
        _write(decider)
    return statistics.median(seconds)
