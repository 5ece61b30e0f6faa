"""Kopf's handlers: they put each event into the store, and the loop decides on the store.

    kopf run -m gpusharing.controller.handlers --all-namespaces

runs the operator for development, against the current context; `gpusharing operator` runs it with the same handlers.
They are handlers of events that return nothing, so that Kopf writes nothing on objects, most of which are not ours.
"""

from typing import Any

import kopf

from gpusharing.controller import development, kopf_settings
from gpusharing.controller.kopf_session import forget_watches
from gpusharing.controller.running import Operator
from gpusharing.kube import kinds


@kopf.on.startup()
async def start(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    kopf_settings.configure(settings)
    if "operator" not in memo:
        # Under `kopf run`, nobody has started it yet.
        memo.operator = await development.begin()


@kopf.on.login()
async def login(memo: kopf.Memo, **_: Any) -> kopf.AiohttpSession:
    return _operator(memo).session.login()


@kopf.on.probe(id="ready")
async def is_ready(memo: kopf.Memo, **_: Any) -> bool:
    return _operator(memo).is_ready()


@kopf.on.cleanup()
async def stop(memo: kopf.Memo, **_: Any) -> None:
    await _operator(memo).stop()
    forget_watches()


@kopf.on.event("gpusharing.dev", "v1alpha1", "sharingpolicies")
async def hear_policy(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    _operator(memo).hear(kinds.SHARING_POLICIES, event)


@kopf.on.event("resource.k8s.io", "v1", "resourceclaims")
async def hear_claim(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    _operator(memo).hear(kinds.RESOURCE_CLAIMS, event)


@kopf.on.event("resource.k8s.io", "v1", "deviceclasses")
async def hear_class(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    _operator(memo).hear(kinds.DEVICE_CLASSES, event)


@kopf.on.event("", "v1", "namespaces")
async def hear_namespace(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    _operator(memo).hear(kinds.NAMESPACES, event)


@kopf.on.event("", "v1", "resourcequotas")
async def hear_quota(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    _operator(memo).hear(kinds.RESOURCE_QUOTAS, event)


def _operator(memo: kopf.Memo) -> Operator:
    operator: Operator = memo.operator
    return operator
