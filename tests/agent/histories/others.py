"""Everybody else: operator, people at the console, hardware and disk that fail, and time."""

import shutil
from typing import Final

from agent.histories.kubelet import Kubelet
from agent.histories.wishes import OFFERS
from agent.histories.world import INTERVALS
from gpusharing import sim
from gpusharing.api import names
from gpusharing.api.sharing.gpu_status import GpuStatus
from gpusharing.api.sharing.node_spec import IDLE_WAIT, AllocatedDevice, GpuSharing, NodeSharingSpec, PolicyReference
from gpusharing.core.timestamps import seconds
from gpusharing.nvidia.mps import processes
from gpusharing.nvidia.mps.directory import MpsDirectory
from gpusharing.sim import faults
from harness.eventually import eventually

CHANGES: Final = (
    "nvmlDeviceSetComputeMode", "nvmlDeviceSetMigMode", "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlGpuInstanceCreateComputeInstance", "nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy", "*",
)  # fmt: skip
_MODES: Final = tuple(sim.ComputeMode)
_PROFILES: Final = {"1g.10gb": (19, (0, 1, 2, 3, 4, 5, 6)), "3g.40gb": (9, (0, 4))}
_DAMAGES: Final = (b"", b"{}", b'{"format": 9, "bootID": "b", "content": {}, "checksum": ""}', None)


class Others(Kubelet):
    # ------------------------------------------------------------------------------------ the agent and its operator

    async def time_passes(self, minutes: int) -> None:
        self.clock.now += 60 * minutes
        await self.round()

    async def agent_looks(self) -> None:
        await self.round()

    async def agent_rescans(self) -> None:
        if await self.up():
            assert self.agent
            if await self.attempt(self.agent.rescan()) is None:
                self.seen_anew()
                await self.round()
                self._forgive()

    def _forgive(self) -> None:
        """GPUs that nobody holds and that others have left are as good as new."""
        if self.agent is None or self.unsettled or self.agent.changed.is_set():
            # It has a round to come.
            return
        held = {self.uuid_of(one.device) for claim in self.claims.values() if claim.asked for one in claim.held}
        for uuid, gpu in self.gpus.items():
            if not (uuid in held or self.agent.records.claims_on(uuid) or gpu.instances or gpu.mig):
                gpu.spoiled = False

    async def agent_is_killed(self) -> None:
        await self.bury()

    async def operator_speaks(self, offers: int) -> None:
        """Of what is allocated, and what may be withdrawn, in any case."""
        if self.server.sharing is None:
            return
        self.offers = OFFERS[offers % len(OFFERS)]
        self.has_spoken = True
        spec = NodeSharingSpec(gpus=tuple(self._decided(status) for status in self.server.sharing.status.gpus))
        self.server.put_sharing(self.server.sharing.model_copy(update={"spec": spec}))
        await self.round()

    async def operator_restricts(self, tenants: int, patience: int) -> None:
        """To tenants of this policy or another, or to nobody. It may wait until what nobody holds has gone there."""
        self.restricted, self.policy = bool(tenants % 3), f"p{tenants % 3}"
        for _ in range(1 + patience % 2):
            await self.operator_speaks(OFFERS.index(self.offers) if self.offers else 0)
            await self.time_passes(int(IDLE_WAIT / 60) * (patience % 2))

    def _decided(self, status: GpuStatus) -> GpuSharing:
        allocated = [one for one in self.server.results() if names.slot_of_device(one.device) == status.slot]
        held = {one.device for one in allocated}
        ended_before = seconds(self.clock.moment()) - IDLE_WAIT
        approved = [
            published
            for published in status.published
            if published.closing_since is not None
            and seconds(published.closing_since) <= ended_before
            and published.device not in held
        ]
        return GpuSharing(
            uuid=status.uuid,
            policy=PolicyReference(name=self.policy, generation=1) if self.offers else None,
            offers=self.offers,
            restricted=self.restricted and self.offers is not None,
            allocated=tuple(AllocatedDevice(claim="c", device=device) for device in sorted(held)),
            close_approved=tuple(closed.device for closed in approved),
            close_approved_since=tuple(closed.closing_since or "" for closed in approved),
        )

    async def kubelet_wipes_slices(self) -> None:
        self.server.slices.clear()
        await self.round()

    # -------------------------------------------------------------------------------------------- what goes wrong

    async def next_is_killed(self, steps: int) -> None:
        """The agent, at a change that is so many ahead."""
        self.trouble.arm(steps, kills=True)

    async def next_fails(self, steps: int) -> None:
        self.trouble.arm(steps, kills=False)

    async def next_is_a_lie(self, change: int, after: int) -> None:
        """The driver says that it has done something, and has not."""
        self.bed.sim.inject(faults.CallLies(CHANGES[change % (len(CHANGES) - 1)], after=after % 3, times=1))
        self.expects_trouble = True

    async def driver_fails(self, call: int, after: int, times: int) -> None:
        call_, after = (
            CHANGES[call % len(CHANGES)],
            after % 40 if call % len(CHANGES) == len(CHANGES) - 1 else after % 3,
        )
        self.bed.sim.inject(faults.CallFails(call_, (999, 19, 15)[times % 3], after=after, times=1 + times % 4))
        self.expects_trouble = True

    async def disk_is_full(self) -> None:
        self.trouble.disk_is_full = True
        self.lasting.add("disk")
        self.unsettled = True

    async def mps_does_not_start(self) -> None:
        self.bed.sim.inject(faults.MpsDoesNotStart())
        self.lasting.add("mps")
        self.unsettled = True

    async def gpu_is_lost(self, number: int) -> None:
        self.bed.sim.inject(faults.GpuLost(self.uuid(number)))
        self.lasting.add("lost")
        self.unsettled = True

    async def all_heals(self) -> None:
        self.heal()

    def heal(self) -> None:
        self.trouble.disk_is_full = False
        self.bed.sim.clear()
        if "CDI file of before" in self.lasting:
            self.bed.renew_cdi()
        if self.lasting:
            # What was done meanwhile by nobody looks as if others had done it.
            for gpu in self.gpus.values():
                gpu.changed = True
        self.lasting.clear()

    async def node_reboots(self) -> None:
        await self.bury()
        for claim in self.claims.values():
            claim.end_container()
            claim.acked = False
        self.bed.reboot()
        self.lasting.discard("lost")
        self.unsettled = True
        now = self.bed.gpus()
        for uuid, gpu in self.gpus.items():
            gpu.slices, gpu.modes = {now[uuid].timeslice}, {now[uuid].compute_mode}
            gpu.mig_modes = {now[uuid].mig_mode}
            gpu.instances.clear()
            mode = now[uuid].mig_mode
            gpu.mig = mode is not None and mode.current
            gpu.changed = True
            gpu.spoiled = gpu.mig or any(claim.forgotten for claim in self.claims.values())

    async def gpus_are_renumbered(self, first: int, stale: int) -> None:
        """By a reboot. Where NVIDIA's CDI file is not made anew, it leads to other GPUs."""
        await self.bury()
        self.bed.renumber(first % len(self.bed.uuids))
        await self.node_reboots()
        if stale % 2:
            self.lasting.add("CDI file of before")
        else:
            self.bed.renew_cdi()

    async def power_is_cut(self, torn: int) -> None:
        """Files that were not forced to the disk may be empty afterwards."""
        await self.bury()
        kinds = ("claims", "journal", "health")
        files = sorted(path for kind in kinds for path in (self.bed.state / kind).glob("*.json"))
        for number, path in enumerate(files):
            if (torn >> number % 6) & 1:
                path.write_bytes(b"")
        await self.node_reboots()

    async def state_is_lost(self) -> None:
        """While the agent is away, and in the same boot. What is prepared was reported, and the operator knows all
        claims of the node."""
        await self.round()
        await self.bury()
        if self.server.sharing is None or not self.has_spoken:
            return
        spec = self.server.sharing.spec.model_copy(update={"claims": tuple(self.server.verdicts())})
        self.server.put_sharing(self.server.sharing.model_copy(update={"spec": spec}))
        for kind in ("claims", "journal", "gpus", "pool", "health", "seen"):
            shutil.rmtree(self.bed.state / kind, ignore_errors=True)
        self.unsettled = True
        for gpu in self.gpus.values():
            # What it was set to before is not lost with it.
            gpu.offers_unknown = gpu.spoiled = True
        for claim in self.claims.values():
            claim.forgotten = claim.forgotten or (claim.asked and claim.uid not in self.server.claims)

    async def file_is_damaged(self, number: int, damage: int) -> None:
        """And the next agent reads it."""
        await self.bury()
        files = sorted(self.bed.state.glob("*/*.json"))
        if not files:
            return
        path = files[number % len(files)]
        content = _DAMAGES[damage % len(_DAMAGES)]
        self.note(f"  {path.parent.name}/{path.name}: {content!r}")
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        if path.parent.name == "gpus":
            self.gpus[path.stem].offers_unknown = True
        if path.parent.name == "claims" and path.stem in self.claims:
            claim = self.claims[path.stem]
            claim.forgotten = True
            # Nothing is put back before it is known again.
            self.unsettled = True
            for result in claim.held:
                self.gpus[self.uuid_of(result.device)].spoiled = True

    # ------------------------------------------------------------------------------------- people at the console

    async def others_set_time_slice(self, number: int, value: int) -> None:
        gpu = self.gpus[self.uuid(number)]
        slice_ = INTERVALS[value % len(INTERVALS)]
        self.bed.sim.set_timeslice(self.uuid(number), slice_)
        gpu.slices.add(slice_)
        gpu.changed = True

    async def others_set_compute_mode(self, number: int, value: int) -> None:
        gpu = self.gpus[self.uuid(number)]
        mode = _MODES[value % len(_MODES)]
        self.bed.sim.set_compute_mode(self.uuid(number), mode)
        gpu.modes.add(mode)
        gpu.changed = True

    async def others_switch_mig(self, number: int, on: int) -> None:
        uuid = self.uuid(number)
        before = self.bed.gpus()[uuid].mig_mode
        if before and self.bed.smi("-i", uuid, "-mig", str(on % 2)):
            after = self.bed.gpus()[uuid].mig_mode
            if after and after != before:
                gpu = self.gpus[uuid]
                if after.current != before.current:
                    gpu.mig = after.current
                # While the GPU is in use, the driver keeps the wish for later.
                gpu.mig_modes.add(sim.MigMode(current=gpu.mig, pending=after.pending))
                self._interfered(uuid)

    async def others_cut(self, number: int, profile: int, place: int) -> None:
        uuid = self.uuid(number)
        name = list(_PROFILES)[profile % len(_PROFILES)]
        profile_id, starts = _PROFILES[name]
        before = self._instances(uuid)
        self.bed.smi("mig", "-i", uuid, "-cgi", f"{profile_id}:{starts[place % len(starts)]}", "-C")
        if made := self._instances(uuid) - before:
            self.gpus[uuid].instances |= made
            self._interfered(uuid)

    async def others_destroy(self, number: int) -> None:
        """An instance, whosever it is, if no program is in it."""
        for uuid in self.bed.uuids:
            before = self._instances(uuid)
            for gpu in self.bed.gpus()[uuid].gpu_instances:
                if gpu.compute_instances and gpu.id % 5 == number % 5:
                    self.bed.smi("mig", "-i", uuid, "-gi", str(gpu.id), "-dci")
                    self.bed.smi("mig", "-i", uuid, "-gi", str(gpu.id), "-dgi")
            if gone := before - self._instances(uuid):
                self.gpus[uuid].instances -= gone
                self._interfered(uuid)

    async def others_kill_mps(self, number: int) -> None:
        daemons = sorted(self.bed.daemons())
        if not daemons:
            return
        name = daemons[number % len(daemons)]
        for claim in self.claims.values():
            if claim.container and name in claim.container.daemons:
                # Its clients are lost with it.
                claim.end_container()
        self.bed.kill_daemon(name)

        async def servers_have_ended() -> None:
            assert not processes.with_mark(MpsDirectory(self.bed.mps_home / name).mark())

        await eventually(servers_have_ended)
        for uuid in self.bed.uuids:
            self.gpus[uuid].changed = True

    def others_leave(self) -> None:
        for uuid, gpu in self.gpus.items():
            for instance in self.bed.gpus()[uuid].gpu_instances:
                if any(part.uuid in gpu.instances for part in instance.compute_instances):
                    self.bed.smi("mig", "-i", uuid, "-gi", str(instance.id), "-dci")
                    self.bed.smi("mig", "-i", uuid, "-gi", str(instance.id), "-dgi")
            gpu.instances.clear()
            if gpu.mig:
                self.bed.smi("-i", uuid, "-mig", "0")
                gpu.mig_modes = {self.bed.gpus()[uuid].mig_mode}
                gpu.mig = False
            gpu.changed = True

    def _interfered(self, uuid: str) -> None:
        self.gpus[uuid].spoiled = self.gpus[uuid].changed = True

    def _instances(self, uuid: str) -> set[str]:
        return {part.uuid for one in self.bed.gpus()[uuid].gpu_instances for part in one.compute_instances}
