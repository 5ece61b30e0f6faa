"""What decisions name, as kinds of the API."""

from collections.abc import Mapping
from typing import Any, Final

from gpusharing.core.intents import Target
from gpusharing.kube import kinds
from gpusharing.kube.kinds import Kind

KINDS: Final[Mapping[Target, Kind[Any]]] = {
    Target.ADMISSION_POLICY: kinds.ADMISSION_POLICIES,
    Target.DEVICE_CLASS: kinds.DEVICE_CLASSES,
    Target.DEVICE_TAINT_RULE: kinds.DEVICE_TAINT_RULES,
    Target.RESOURCE_QUOTA: kinds.RESOURCE_QUOTAS,
    Target.RESOURCE_CLAIM: kinds.RESOURCE_CLAIMS,
    Target.RESOURCE_CLAIM_TEMPLATE: kinds.RESOURCE_CLAIM_TEMPLATES,
    Target.POD: kinds.PODS,
    Target.SHARING_POLICY: kinds.SHARING_POLICIES,
    Target.NODE_SHARING: kinds.NODE_SHARINGS,
}
