"""What somebody may do, who asks for themselves. There is no RBAC: everybody may do everything."""

from collections.abc import Mapping
from typing import Any, Final

from gpusharing.demo.apiserver.admission import User
from gpusharing.demo.apiserver.kinds import Kind

PLURALS: Final = frozenset({"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"})

_ALLOWED: Final = {"allowed": True, "reason": "this embedded API server has no RBAC: everything is allowed"}
_RULES: Final = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


def answered(kind: Kind, body: Mapping[str, Any], user: User) -> dict[str, Any]:
    about = {"kind": kind.kind, "apiVersion": kind.group_version, "metadata": {"creationTimestamp": None}}
    if kind.plural == "selfsubjectreviews":
        return {**about, "status": {"userInfo": user.info()}}
    status = _ALLOWED if kind.plural == "selfsubjectaccessreviews" else _RULES
    return {**about, "spec": body.get("spec") or {}, "status": status}
