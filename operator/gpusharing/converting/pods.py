"""Pods and what makes them: until 1.30 the names of claims were below `source`."""

from typing import Final

from gpusharing.converting.fields import Field
from gpusharing.converting.moving import spread

_TEMPLATES: Final = {
    "Pod": ("spec",),
    "PodTemplate": ("template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        ("DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"),
        ("spec", "template", "spec"),
    ),
}
KINDS: Final = frozenset(_TEMPLATES)
_NAMES: Final = ("resourceClaimName", "resourceClaimTemplateName")


def renew(document: Field) -> bool:
    """Whether anything was so."""
    spec = document.get(*_TEMPLATES[document.text_at("kind")])
    claims = [claim for claim in spec.items("resourceClaims") if "source" in claim] if spec else []
    for claim in claims:
        named = [name for name in _NAMES if name in claim["source"]]
        if len(named) != 1 or any(name in claim for name in _NAMES):
            raise claim.refusal("must name one claim or template", f"set {' or '.join(_NAMES)}")
        spread(claim.map, "source")
    return bool(claims)
