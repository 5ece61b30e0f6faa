"""What the offers of a policy come to on one GPU: amounts instead of percentages, and only what fits there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from gpusharing.api.names import Sharing
from gpusharing.api.sharing.gpu_status import NOT_REPORTED, MemoryWallSupport
from gpusharing.api.sharing.node_spec import Refusal, RefusalReason
from gpusharing.api.sharing.offers import Enforcement, MigOffer, MpsOffer, Offers, TimeSlicingMemory, TimeSlicingOffer
from gpusharing.api.sharing.tenants import Allowance
from gpusharing.core.devices import layout
from gpusharing.core.devices.gpu import Divisible
from gpusharing.core.quantities import in_mebibytes, mebibytes


@dataclass(frozen=True, slots=True)
class Resolution:
    offers: Offers
    refused: tuple[Refusal, ...] = ()


def resolve(
    offers: Offers,
    *,
    gpu: Divisible,
    mig_profiles: Sequence[str],
    memory_wall: MemoryWallSupport = NOT_REPORTED,
    allow: Allowance | None = None,
) -> Resolution:
    """`mig_profiles` are those that the GPU can be cut into; where `gpu` knows their places, layouts are tried out.
    Resolving again changes nothing."""
    work = _Resolving(gpu, mig_profiles, memory_wall, allow or Allowance())
    resolved = Offers(
        exclusive=offers.exclusive,
        time_slicing=work.time_slicing(offers.time_slicing) if offers.time_slicing else None,
        mps=work.mps(offers.mps) if offers.mps else None,
        mig=work.mig(offers.mig) if offers.mig else None,
    )
    return Resolution(resolved, tuple(work.refused))


@dataclass(slots=True)
class _Resolving:
    gpu: Divisible
    mig_profiles: Sequence[str]
    memory_wall: MemoryWallSupport
    allow: Allowance
    refused: list[Refusal] = field(default_factory=list)

    def time_slicing(self, offer: TimeSlicingOffer) -> TimeSlicingOffer | None:
        if offer.memory is None:
            return offer
        if not self._can_be_held(offer.memory):
            return None
        wanted = {"min": offer.memory.min, "default": offer.memory.default}
        amounts = self._amounts(Sharing.TIME_SLICING, "timeSlicing", wanted)
        if amounts is None or not self._may_be_asked_for(Sharing.TIME_SLICING, "timeSlicing", amounts["default"]):
            return None
        return offer.model_copy(update={"memory": offer.memory.model_copy(update=amounts)})

    def _can_be_held(self, memory: TimeSlicingMemory) -> bool:
        """To what they got of it, if they have to be."""
        if self.memory_wall.supported or memory.enforcement is not Enforcement.REQUIRED:
            return True
        self._refuse(
            Sharing.TIME_SLICING,
            RefusalReason.MEMORY_WALL_UNSUPPORTED,
            f"offers.timeSlicing.memory.enforcement is {memory.enforcement}, but memory limits are not supported on "
            f"this GPU ({self.memory_wall.reason}): repair that, select other GPUs, or set {Enforcement.PREFERRED}",
        )
        return False

    def mps(self, offer: MpsOffer) -> MpsOffer | None:
        wanted = {"min": offer.memory.min, "default": offer.memory.default, "max": offer.memory.max or "100%"}
        amounts = self._amounts(Sharing.MPS, "mps", wanted)
        if amounts is None or not self._may_be_asked_for(Sharing.MPS, "mps", amounts["default"]):
            return None
        if self.allow.max_threads and offer.threads.default > self.allow.max_threads:
            self._refuse(
                Sharing.MPS,
                RefusalReason.DEFAULT_EXCEEDS_ALLOWANCE,
                f"offers.mps.threads.default is {offer.threads.default}, but tenants.allow.maxThreads is "
                f"{self.allow.max_threads}: raise the limit, or lower the default",
            )
            return None
        return offer.model_copy(update={"memory": offer.memory.model_copy(update=amounts)})

    def _may_be_asked_for(self, sharing: Sharing, offer: str, default: str) -> bool:
        """Who does not ask gets the default, which is never less than the least."""
        most = self.allow.max_memory
        if most is None or mebibytes(default) <= mebibytes(most):
            return True
        self._refuse(
            sharing,
            RefusalReason.DEFAULT_EXCEEDS_ALLOWANCE,
            f"offers.{offer}.memory.default is {default} on this GPU, but tenants.allow.maxMemory is {most}: raise the "
            "limit, or lower the default",
        )
        return False

    def mig(self, offer: MigOffer) -> MigOffer | None:
        wanted = offer.profiles or tuple(offer.layout or ())
        unknown = [profile for profile in wanted if profile not in self.mig_profiles]
        if not unknown:
            return offer if self._has_room(offer.layout or {}) else None
        field_name = "profiles" if offer.profiles else "layout"
        choices = f"it supports {', '.join(self.mig_profiles)}" if self.mig_profiles else "it supports none"
        self._refuse(
            Sharing.MIG,
            RefusalReason.UNKNOWN_MIG_PROFILE,
            f"offers.mig.{field_name}: this GPU does not support {', '.join(unknown)}; {choices}",
        )
        known = tuple(profile for profile in wanted if profile in self.mig_profiles)
        # Half a layout is another layout; of profiles, claims can use those that there are.
        return MigOffer(profiles=known) if offer.profiles and known else None

    def _has_room(self, wanted: Mapping[str, int]) -> bool:
        known = {profile.name for profile in self.gpu.mig.profiles} if self.gpu.mig else set()
        excess = layout.too_many(wanted, self.gpu) if wanted.keys() <= known else {}
        if not excess:
            return True
        room = {name: count - excess.get(name, 0) for name, count in wanted.items() if count > excess.get(name, 0)}
        beside = f" next to {_counted(room)}" if room else ""
        self._refuse(
            Sharing.MIG,
            RefusalReason.LAYOUT_DOES_NOT_FIT,
            f"offers.mig.layout: there is no room for {_counted(excess)}{beside} on this GPU: remove it, or use "
            "smaller profiles",
        )
        return False

    def _amounts(self, sharing: Sharing, offer: str, wanted: Mapping[str, str]) -> Mapping[str, str] | None:
        """What is wanted, in ascending order, in mebibytes of this GPU; None where it cannot be had."""
        amounts = {key: mebibytes(text, of=self.gpu.usable_mib) for key, text in wanted.items()}
        for key, amount in amounts.items():
            if amount > self.gpu.usable_mib:
                problem = f"{wanted[key]} is more than the {self.gpu.usable_mib}Mi of this GPU: select larger GPUs"
                self._refuse(sharing, RefusalReason.MEMORY_TOO_SMALL, f"offers.{offer}.memory.{key}: {problem}")
                return None
        for (low, smaller), (high, larger) in pairwise(amounts.items()):
            if smaller > larger:
                problem = f"{smaller}Mi on this GPU, but {high} is {larger}Mi: use amounts that fit this GPU"
                self._refuse(sharing, RefusalReason.MEMORY_TOO_SMALL, f"offers.{offer}.memory.{low}: {problem}")
                return None
        return {key: in_mebibytes(amount) for key, amount in amounts.items()}

    def _refuse(self, sharing: Sharing, reason: RefusalReason, message: str) -> None:
        self.refused.append(Refusal(sharing=sharing, reason=reason, message=message))


def _counted(instances: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in sorted(instances.items()))
