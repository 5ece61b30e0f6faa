"""What is asked for, and what an allocation came to: all that is needed to say what is lacking."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gpusharing.core.allocate.reasons import Reasons
from gpusharing.core.allocate.requests import Claim, Wanted
from gpusharing.core.text import SHOWN
from gpusharing.explaining import lean, wording
from gpusharing.explaining.alike import Group
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

    def on_each_node(self, like: Reasons) -> list[tuple[Group, Reasons]]:
        """Of the same request, once for each group of nodes that are alike."""
        return [
            (group, one)
            for group, found in self.answer.answered
            if any(name in self.nodes for name in group.members)
            for one in found.reasons
            if (one.claim, one.request) == (like.claim, like.request)
        ]

    def holders(self, like: Reasons) -> str:
        """Who has what the request could have otherwise."""
        claims: list[lean.Claim] = []
        total = 0
        for group, one in self.on_each_node(like):
            total += len(one.holders) * sum(name in self.nodes for name in group.members)
            if len(claims) < SHOWN:
                claims += self.asking.examples(one.holders, group, most=SHOWN)
        return wording.holders(claims, total, self.scene.now)
