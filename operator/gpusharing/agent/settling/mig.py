"""The MIG instances of a GPU: made for claims and destroyed after them, or made to stay.

Those of others are left alone.
"""

from collections.abc import Iterable

from gpusharing.agent.settling.drift import Drift, Drifted
from gpusharing.agent.settling.targets import GpuTarget
from gpusharing.agent.state.models import MadeInstance
from gpusharing.agent.state.records import Records
from gpusharing.core.publishing.mig_at_rest import Cut
from gpusharing.nvidia.errors import (
    HardwareError,
    InstanceMissingError,
    MigDisabledError,
    NoRoomError,
    NotFoundError,
    NotOursError,
)
from gpusharing.nvidia.facts import GpuInstance, MigMode, MigPlace, MigState
from gpusharing.nvidia.gpu_node import GpuNode


class Mig:
    def __init__(self, hardware: GpuNode, records: Records, drift: Drift) -> None:
        self._hardware = hardware
        self._records = records
        self._drift = drift
        self._refused: dict[str, HardwareError] = {}

    def forget(self) -> None:
        self._refused.clear()

    async def shrink(self, uuid: str, target: GpuTarget) -> None:
        """Away with what nobody wants any more, and with MIG mode after the last."""
        for made in self._records.journal(uuid).instances:
            if not target.keeps(made.place):
                await self._hardware.destroy_mig_instance(uuid, made.place, mig_uuid=made.uuid)
                self._note(uuid, instances=_without(self._made(uuid), made.place))
        journal = self._records.journal(uuid)
        if journal.mig_mode is not None and not target.places and not journal.instances and not target.at_rest.places:
            await self._hardware.set_mig_mode(uuid, enabled=journal.mig_mode)
            self._note(uuid, mig_mode=None)

    async def grow(self, uuid: str, target: GpuTarget) -> None:
        if not target.places:
            return
        state = await self._state(uuid)
        gone: list[str] = []
        for place, known_as in sorted(target.places.items(), key=lambda wanted: wanted[0].start):
            if known_as is None:
                await self._require(uuid, place, state.at(place))
            elif (here := state.at(place)) is None or here.uuid != known_as:
                gone.append(known_as)
        if gone:
            raise InstanceMissingError(tuple(gone), gpu=uuid)

    async def rest(self, uuid: str, at_rest: Cut) -> bool:
        """What is to be there without claims. Whether anything was changed."""
        if at_rest.problem:
            raise NoRoomError(at_rest.problem, gpu=uuid, remedy="ask for fewer or smaller instances")
        before = self._records.gpu(uuid).mig_mode_found, self._made(uuid)
        if at_rest.mig_mode is not None:
            await self._switch(uuid, enabled=at_rest.mig_mode)
        if at_rest.places:
            state = await self._state(uuid)
            for place in sorted(at_rest.places):
                await self._require(uuid, place, state.at(place))
        return (self._records.gpu(uuid).mig_mode_found, self._made(uuid)) != before

    async def _switch(self, uuid: str, *, enabled: bool) -> None:
        """On GPUs that are reset by it. A reset that failed is not tried again at every turn."""
        if refused := self._refused.get(uuid):
            raise refused
        state = await self._hardware.mig(uuid)
        if state is None:
            return
        found = self._records.gpu(uuid).mig_mode_found
        if state.mode != MigMode(current=enabled, pending=enabled):
            found = state.mode.current if found is None else found
            await self._note_found(uuid, found)
            try:
                await self._hardware.set_mig_mode(uuid, enabled=enabled)
            except HardwareError as error:
                self._refused[uuid] = error
                raise
        if found == enabled:
            await self._note_found(uuid, None)

    async def _note_found(self, uuid: str, mode: bool | None) -> None:
        await self._records.put_gpu(uuid, self._records.gpu(uuid).model_copy(update={"mig_mode_found": mode}))

    async def instance(self, uuid: str, place: MigPlace) -> GpuInstance:
        state = await self._hardware.mig(uuid)
        here = state.at(place) if state else None
        if here is None or here.uuid is None:
            raise NotFoundError(f"there is no MIG instance with profile {place.profile_id} at {place.start}", gpu=uuid)
        return here

    async def _state(self, uuid: str) -> MigState:
        """With MIG mode on."""
        state = await self._hardware.mig(uuid)
        if state is None:
            raise MigDisabledError("it does not support MIG", gpu=uuid, remedy="use another GPU")
        if state.mode.current:
            return state
        if state.switch_resets_gpu:
            raise MigDisabledError(
                "MIG mode is off, and turning it on resets this GPU",
                gpu=uuid,
                remedy="turn it on while the GPU is idle, and delete the pod so that it is scheduled again",
            )
        self._note(uuid, mig_mode=False)
        await self._hardware.set_mig_mode(uuid, enabled=True)
        return await self._state(uuid)

    async def _require(self, uuid: str, place: MigPlace, here: GpuInstance | None) -> None:
        made = {one.place: one for one in self._made(uuid)}
        if here is not None and place not in made:
            if here.is_remnant:
                raise NotOursError(f"another program began {here} and did not finish it", gpu=uuid)
            # It was there before: it is used as it is, and stays.
            return
        if place not in made:
            self._put(uuid, place, made_as=None)
        instance = (await self._hardware.create_mig_instance(uuid, place)).now
        if instance is not None:
            self._put(uuid, place, made_as=instance.uuid)
        if here is None and place in made and made[place].uuid is not None:
            # It had been there before.
            self._drift.was_repaired(Drifted.MIG_INSTANCE, uuid)

    def _put(self, uuid: str, place: MigPlace, *, made_as: str | None) -> None:
        entry = MadeInstance(profile_id=place.profile_id, start=place.start, uuid=made_as)
        self._note(uuid, instances=(*_without(self._made(uuid), place), entry))

    def _made(self, uuid: str) -> tuple[MadeInstance, ...]:
        return self._records.journal(uuid).instances

    def _note(self, uuid: str, **changes: object) -> None:
        self._records.put_journal(uuid, self._records.journal(uuid).model_copy(update=changes))


def _without(made: Iterable[MadeInstance], place: MigPlace) -> tuple[MadeInstance, ...]:
    return tuple(one for one in made if one.place != place)
