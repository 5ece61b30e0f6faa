"""DeviceTaintRules, which not all API servers have: v1 from 1.37 on, in 1.36 v1beta2 where it is switched on."""

from typing import Any, Final

import structlog

from gpusharing.api.dra import DeviceTaintRule
from gpusharing.kube.kinds import DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA, Kind
from gpusharing.kube.transport import Api, ApiError

log = structlog.get_logger(__name__)

KINDS: Final = (DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA)


async def served(api: Api) -> Kind[DeviceTaintRule] | None:
    """The best of them."""
    for kind in KINDS:
        if kind.plural in await _resources(api, kind):
            return kind
    return None


def report(rules: Kind[DeviceTaintRule] | None) -> None:
    if rules is None:
        log.warning(
            "no DeviceTaintRules: where a GPU is held in two ways nobody is evicted, people are told whom to delete",
            remedy="Kubernetes 1.37; in 1.36 serve resource.k8s.io/v1beta2 with feature gate DRADeviceTaintRules",
        )


async def _resources(api: Api, kind: Kind[Any]) -> set[str]:
    try:
        discovery = await api.get_json(kind.path().rpartition("/")[0])
    except ApiError as error:
        if error.status == 404:
            return set()
        raise
    return {resource["name"] for resource in discovery["resources"]}
