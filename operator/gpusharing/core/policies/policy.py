"""Whether a policy can be acted on at all. What the CRD's schema can refuse never gets here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from gpusharing import cel
from gpusharing.api.sharing.policy import SharingPolicy, UnreadablePolicy
from gpusharing.api.sharing.rollout import RolloutMode
from gpusharing.api.sharing.tenants import Quota
from gpusharing.core.policies.answers import Answers
from gpusharing.core.reasons import AcceptedReason

MOST_COST: Final = cel.COST_LIMIT // 10
"""Of all selectors of a policy together, in Kubernetes' units. The scheduler evaluates the selectors of one claim at a
time; the operator those of all policies for all GPUs, in one event loop.
"""


class Objection(NamedTuple):
    reason: AcceptedReason
    message: str


@dataclass(frozen=True, kw_only=True)
class ExaminedPolicy:
    """A policy with its selectors compiled, or with the objection to it."""

    policy: SharingPolicy
    selectors: tuple[cel.Program, ...] = ()
    objection: Objection | None = None
    """The first reason not to accept it; None if it is accepted."""

    @cached_property
    def answers(self) -> Answers:
        """The answers of its selectors on all nodes."""
        return Answers(self.selectors)

    @property
    def name(self) -> str:
        return self.policy.metadata.name

    @property
    def is_readable(self) -> bool:
        """Otherwise nothing but its name is known, and its spec here says nothing."""
        return self.objection is None or self.objection.reason is not AcceptedReason.UNREADABLE

    @property
    def is_suspended(self) -> bool:
        """Its GPUs stay unchanged, and it gets no other GPUs."""
        rollout = self.policy.spec.rollout
        return self.objection is not None or rollout.paused or rollout.mode is RolloutMode.PLAN


class Rank(NamedTuple):
    """Sorts the policy first that wins a GPU, or a name, which only one policy can have."""

    reversed_priority: int
    name: str


def rank(examined: ExaminedPolicy) -> Rank:
    return Rank(-examined.policy.spec.priority, examined.name)


class ExaminedPolicies:
    """All policies, in the order of their names. Immutable: an edit makes a new one."""

    def __init__(self, policies: Iterable[ExaminedPolicy] = ()) -> None:
        self.in_order: Final = tuple(sorted(policies, key=lambda examined: examined.name))
        self.by_name: Final[Mapping[str, ExaminedPolicy]] = {examined.name: examined for examined in self.in_order}
        self.readable: Final[Mapping[str, SharingPolicy]] = {
            examined.name: examined.policy for examined in self.in_order if examined.is_readable
        }

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def quota_of(self, name: str) -> Quota | None:
        """None: there is no limit, also while the policy is suspended."""
        examined = self.by_name.get(name)
        return None if examined is None or examined.is_suspended else examined.policy.spec.tenants.quota

    def replacing(self, examined: ExaminedPolicy) -> "ExaminedPolicies":
        """With this one in the place of the one of its name."""
        return ExaminedPolicies({**self.by_name, examined.name: examined}.values())


def examine(policy: SharingPolicy, *, minor: int) -> ExaminedPolicy:
    """`minor` is that of the Kubernetes whose scheduler is to read the same expressions in the same way."""
    if isinstance(policy, UnreadablePolicy):
        return ExaminedPolicy(policy=policy, objection=Objection(AcceptedReason.UNREADABLE, "see the operator's log"))
    programs: list[cel.Program] = []
    for index, selector in enumerate(policy.spec.gpus.selectors):
        try:
            program = cel.compile(selector.cel.expression, minor)
        except cel.CompileError as error:
            return ExaminedPolicy(policy=policy, objection=_invalid_selector(index, error.explained()))
        if program.max_cost > cel.COST_LIMIT:
            # As the API server refuses it in a DeviceClass.
            excess = f"it may cost {program.max_cost:,} units, but Kubernetes allows {cel.COST_LIMIT:,}"
            return ExaminedPolicy(policy=policy, objection=_invalid_selector(index, excess))
        programs.append(program)
    together = sum(program.max_cost for program in programs)
    if together > MOST_COST:
        return ExaminedPolicy(policy=policy, objection=_too_costly(together))
    return ExaminedPolicy(policy=policy, selectors=tuple(programs))


def broken(policy: SharingPolicy, error: Exception) -> ExaminedPolicy:
    """A policy that makes decisions fail: it is suspended."""
    message = (
        f"the operator cannot decide on this policy ({type(error).__name__}); its GPUs stay unchanged: see the "
        "operator's log, and report it"
    )
    return ExaminedPolicy(policy=policy, objection=Objection(AcceptedReason.INTERNAL_ERROR, message))


def _invalid_selector(index: int, why: str) -> Objection:
    message = (
        f"spec.gpus.selectors[{index}].cel.expression is not valid; until it is corrected, the GPUs of this policy "
        f"stay unchanged: {why}"
    )
    return Objection(AcceptedReason.INVALID_SELECTOR, message)


def _too_costly(together: int) -> Objection:
    message = (
        "spec.gpus.selectors costs too much; until it is corrected, the GPUs of this policy stay unchanged: the "
        f"expressions may cost {together:,} units together, and a policy may cost {MOST_COST:,}; remove expressions, "
        "or replace loops (all, exists, map) by comparisons"
    )
    return Objection(AcceptedReason.INVALID_SELECTOR, message)
