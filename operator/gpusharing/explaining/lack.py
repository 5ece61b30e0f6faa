"""What is asked for, and what an allocation came to: all that is needed to say what is lacking."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gpusharing.core.allocate.reasons import Reasons
from gpusharing.core.allocate.requests import Claim, Wanted
from gpusharing.explaining.asking import Answer, Asking
from gpusharing.explaining.scene import Scene
from gpusharing.findings.finding import Reference


@dataclass(frozen=True, kw_only=True)
class Lack:
    """What was asked, and what came out."""

    about: Reference
    scene: Scene
    asking: Asking
    claims: Sequence[Claim]
    answer: Answer
    nodes: Collection[str]
    """On which the pod may run."""

    def wanted(self, reasons: Reasons) -> Wanted:
        return next(
            one
            for claim in self.claims
            if (claim.namespace, claim.name) == reasons.claim
            for request in claim.requests
            for one in request.alternatives
            if one.name == reasons.request
        )
