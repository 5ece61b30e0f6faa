"""Events, as people see them who look at an object."""

import secrets
from enum import StrEnum
from typing import Any, Final

from gpusharing.api.meta import ObjectMeta
from gpusharing.kube.clock import now_precisely
from gpusharing.kube.kinds import EVENTS, Kind
from gpusharing.kube.transport import Api

# The API takes events about cluster-scoped objects in this namespace only.
_NAMESPACE: Final = "default"
_MAX_NOTE: Final = 1024
_MAX_NAME: Final = 253


class EventType(StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


class Events:
    def __init__(self, api: Api, *, controller: str, instance: str) -> None:
        self._api = api
        self._reporter = {"reportingController": controller, "reportingInstance": instance}

    async def record(
        self,
        kind: Kind[Any],
        about: ObjectMeta,
        *,
        type_: EventType,
        action: str,
        reason: str,
        note: str,
        moment: str = "",
        identity: str = "",
    ) -> None:
        """`moment`: when it happened, if not now. `identity`: of two Events with the same one, the API server refuses
        the second with 409."""
        namespace = about.namespace or _NAMESPACE
        regarding = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": about.name,
            "namespace": about.namespace,
            "uid": about.uid,
            "resourceVersion": about.resource_version,
        }
        event = {
            "metadata": {"name": _name(about.name, identity or secrets.token_hex(8)), "namespace": namespace},
            "eventTime": moment or now_precisely(),
            "type": type_,
            "action": action,
            "reason": reason,
            "note": note.encode(errors="replace")[:_MAX_NOTE].decode(errors="ignore"),
            "regarding": {key: value for key, value in regarding.items() if value},
        }
        await self._api.create(EVENTS, event | self._reporter, namespace)


def _name(about: str, identity: str) -> str:
    """The name of what it is about may be as long as a name can be."""
    suffix = f".{identity}"
    return about[: _MAX_NAME - len(suffix)].rstrip("-.") + suffix
