"""A place on a GPU that a MIG instance can have, and what is there."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from gpusharing.core.devices.gpu import MigProfile
from gpusharing.nvidia.errors import HardwareError, LeftoverError, SettingNotAppliedError
from gpusharing.nvidia.facts import GpuInstance, MigPlace, Span
from gpusharing.nvidia.nvml import instances, mig_mode, mig_profiles
from gpusharing.nvidia.nvml.session import Session

T = TypeVar("T")


class Place:
    def __init__(self, session: Session, uuid: str, place: MigPlace) -> None:
        self._session = session
        self._place = place
        self.gpu = session.repeatable(lambda: session.gpu(uuid))
        self.may_be_cut = mig_mode.is_on(self.gpu)
        self.profiles = {profile.id: profile for profile in mig_profiles.read(self.gpu)}

    @property
    def profile(self) -> MigProfile | None:
        return self.profiles.get(self.profile_id)

    @property
    def profile_id(self) -> int:
        return self._place.profile_id

    @property
    def start(self) -> int:
        return self._place.start

    def occupants(self, size: int) -> tuple[GpuInstance, ...]:
        """Whatever lies on so many slices from here on."""
        return tuple(instances.read(self.gpu, self.profiles, within=Span(self.start, size)))

    def among(self, some: Iterable[GpuInstance]) -> GpuInstance | None:
        return next((one for one in some if one.place == self._place), None)

    def here(self) -> GpuInstance | None:
        return instances.at(self.gpu, self.profiles, self._place) if self.may_be_cut else None

    def again(self, instance: GpuInstance) -> GpuInstance | None:
        """What has become of it. Its number may be another's by now."""
        return instances.at(self.gpu, self.profiles, self._place, numbers=[instance.id])

    def leftover(self, problem: str, last_seen: GpuInstance | None) -> LeftoverError:
        try:
            left = self.here()
        except HardwareError:
            left = last_seen
        return LeftoverError(problem, place=self._place, left=left, gpu=self.gpu.uuid)

    def confirm(self, claim: str, evidence: Callable[[], T | None]) -> T:
        """That the driver did what it said: drivers lie, and sessions may be behind."""
        if seen := evidence():
            return seen
        self._session.renew()
        self.gpu = self._session.gpu(self.gpu.uuid)
        if seen := evidence():
            return seen
        found = self.here() or "nothing"
        raise SettingNotAppliedError(f"the driver said that it {claim}, but there is {found}", gpu=self.gpu.uuid)
