"""What containers of a claim are given: walls, metadata and CDI specs, in the order in which they refer to others.

Specs of others may be large, and disks slow: files are read and written in threads. What they are to say is found out
before, where nothing else changes meanwhile.
"""

import asyncio
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import structlog

from gpusharing.agent.claims.reading import ClaimRef
from gpusharing.agent.containers.cdi import AnotherGpuError, CdiDirectory, UnresolvableError
from gpusharing.agent.containers.device_metadata import MetadataFiles
from gpusharing.agent.publishing.node_gpus import NodeGpus
from gpusharing.agent.settling import targets
from gpusharing.agent.state.files import Boot
from gpusharing.agent.state.models import PreparedClaim, PreparedDevice
from gpusharing.agent.walls.claim_walls import Walls
from gpusharing.core.publishing.devices import attributes_of

log = structlog.get_logger(__name__)


class _Described(NamedTuple):
    minors: Mapping[str, int]
    """Of its GPUs, as far as they are there."""
    attributes: Sequence[Mapping[str, Any]] | None
    """Of its devices. None: nobody knows them all now."""


class ClaimFiles:
    def __init__(self, *, gpus: NodeGpus, walls: Walls, cdi: CdiDirectory, metadata: MetadataFiles) -> None:
        self._gpus = gpus
        self._walls = walls
        self._cdi = cdi
        self._metadata = metadata
        self._written: set[str] = set()
        """The uids of claims whose files are all there, if nobody else has removed them."""
        self._unresolvable: dict[str, str] = {}
        """By uid: why NVIDIA's specs do not lead to its GPUs."""
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def turn(self, uid: str) -> asyncio.Lock:
        """To be held from the look whether a claim is prepared to the change of its files, and while a claim goes: else
        what was begun for a claim would come to the disk after it has gone."""
        return self._turns.setdefault(uid, asyncio.Lock())

    def claims(self) -> set[str]:
        """The claims whose containers find anything, whoever wrote it when."""
        return {*self._cdi.claims(), *self._metadata.claims()}

    def claims_of(self, boot: Boot) -> set[str]:
        """Those of them whose containers may run."""
        files = (self._cdi, self._metadata)
        return {uid for uid in self.claims() if any(kind.was_written_in(boot, uid) for kind in files)}

    def slots(self) -> dict[str, int]:
        """Of GPUs, as containers know them."""
        return self._cdi.slots()

    def reference(self, uid: str) -> ClaimRef | None:
        """What the claim's files call it."""
        found = self._metadata.reference(uid)
        return ClaimRef(uid, *found) if found else None

    async def write(self, claim: PreparedClaim) -> None:
        """The CDI spec comes last, once everything it refers to exists."""
        described = self._described(claim)

        def write() -> None:
            self._walls.build(claim)
            self._write_spec(claim, described)

        await _to_its_end(write)
        self._written.add(claim.uid)

    def unwritten(self, claims: Iterable[PreparedClaim]) -> list[PreparedClaim]:
        """Those whose files never came to be all there, or were withdrawn."""
        return [claim for claim in claims if claim.uid not in self._written]

    def incomplete(self, claims: Iterable[PreparedClaim]) -> list[PreparedClaim]:
        """Those of which others have removed files. Looks for files, not into them: that costs little."""
        specs = set(self._cdi.claims())
        return [claim for claim in claims if claim.uid in self._written and not self._is_complete(claim, specs)]

    def _is_complete(self, claim: PreparedClaim, specs: Container[str]) -> bool:
        return claim.uid in specs and self._metadata.is_complete(claim) and self.has_walls(claim)

    async def renew(self, claim: PreparedClaim) -> None:
        """What its containers find, as its record and NVIDIA's specs are now; walls are renewed for all claims."""
        if any(targets.waits_for_instance(device) for device in claim.devices):
            # It would lead containers that run already to nothing.
            return
        described = self._described(claim)
        try:
            await _to_its_end(lambda: self._write_spec(claim, described))
        except AnotherGpuError as error:
            # A container that starts now would get the other one.
            await self.delete_spec(claim.uid)
            self._note_unresolvable(claim, "CDI spec withdrawn", error)
        except UnresolvableError as error:
            # No container of it starts before NVIDIA's specs are there again.
            self._note_unresolvable(claim, "CDI spec missing", error)
        else:
            self._written.add(claim.uid)
            self._unresolvable.pop(claim.uid, None)

    def _note_unresolvable(self, claim: PreparedClaim, event: str, error: UnresolvableError) -> None:
        """It is tried again and again."""
        if self._unresolvable.get(claim.uid) != str(error):
            log.warning(event, claim=claim.display_name, error=str(error))
        self._unresolvable[claim.uid] = str(error)

    def has_walls(self, claim: PreparedClaim) -> bool:
        """Whether all walls of its devices are there."""
        return self._walls.are_complete(claim)

    def renew_walls(self) -> None:
        self._walls.renew()

    async def delete(self, uid: str) -> None:
        """The CDI spec goes first: nothing leads to the rest any more."""
        self._written.discard(uid)
        self._unresolvable.pop(uid, None)

        def delete() -> None:
            self._delete_spec(uid)
            self._walls.delete(uid)

        await _to_its_end(delete)

    async def delete_spec(self, uid: str) -> None:
        self._written.discard(uid)
        await _to_its_end(lambda: self._delete_spec(uid))

    def _delete_spec(self, uid: str) -> None:
        self._cdi.delete(uid)
        self._metadata.delete(uid)

    def _described(self, claim: PreparedClaim) -> _Described:
        here = {device.uuid for device in claim.devices if self._gpus.is_here(device.uuid)}
        are_known = all(device.uuid in self._gpus.uuids for device in claim.devices)
        # A GPU that is not there is described as it was.
        has_to_be = are_known or not self._metadata.has(claim.uid)
        return _Described(
            minors={uuid: self._gpus.published(uuid).gpu.minor for uuid in here},
            attributes=[self._attributes(device) for device in claim.devices] if has_to_be else None,
        )

    def _write_spec(self, claim: PreparedClaim, described: _Described) -> None:
        for device in claim.devices:
            if device.uuid in described.minors:
                self._cdi.check(device, minor=described.minors[device.uuid])
        if described.attributes is not None:
            self._metadata.write(claim, described.attributes)
        self._cdi.write(claim.uid, claim.devices)

    def _attributes(self, device: PreparedDevice) -> dict[str, Any]:
        if device.uuid not in self._gpus.uuids:
            return {}
        attributes = attributes_of(self._gpus.published(device.uuid), device.device)
        return attributes | ({"uuid": {"string": device.mig_uuid}} if device.mig_uuid else {})


async def _to_its_end(work: Callable[[], None]) -> None:
    """Also if nobody waits for it any more: what comes next must find it done."""
    done = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(done)
    except asyncio.CancelledError:
        await asyncio.wait({done})
        raise
