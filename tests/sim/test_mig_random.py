"""Random sequences of everything that changes MIG instances, against a model in Python, on each family of boards."""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from ctypes import byref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pynvml as nvml
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from building.properties import load_profile
from gpusharing import sim
from gpusharing.sim import faults, rules, store
from gpusharing.sim.mig import MigProfile
from gpusharing.sim.state import Media
from sim import calls

load_profile()

NOT_SUPPORTED, IN_USE, INSUFFICIENT_RESOURCES = 3, 19, 23

pytestmark = pytest.mark.usefixtures("root")


@dataclass
class Instance:
    """What the model knows of a GPU instance: its compute instances by id, each with slices, start and UUID."""

    profile: MigProfile
    start: int
    handle: Any
    computes: dict[int, tuple[int, int, str]] = field(default_factory=dict)

    def overlaps(self, start: int, size: int) -> bool:
        return start < self.start + self.profile.shape.memory_slices and self.start < start + size


class Machine(RuleBasedStateMachine):
    """One GPU; what the driver says after each step is what the model says."""

    model: str

    @initialize()
    def make_node(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="mig-random-"))
        self.node = sim.create(self.directory / "node", self.model)
        self.uuid = self.node.gpus()[0].uuid
        nvml.nvmlLib = ctypes.CDLL(str(self.node.library))
        nvml._nvmlGetFunctionPointer_cache.clear()
        nvml.nvmlInit()
        self.profiles = sim.MODELS[self.model].mig_profiles
        self.mig = False
        self.instances: list[Instance] = []
        self.processes: dict[int, str] = {}
        self.uuids_seen: set[str] = set()

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            shutil.rmtree(self.directory)

    @property
    def gpu(self) -> Any:
        return calls.gpu()

    def fits(self, profile: MigProfile, start: int) -> bool:
        shape = profile.shape
        if sum(each.profile is profile for each in self.instances) >= shape.max_instances:
            return False
        media = [each.profile.media for each in self.instances]
        if profile.media == Media.ONE and Media.ONE in media:
            return False
        if profile.media == Media.ALL and any(each != Media.NONE for each in media):
            return False
        if profile.media != Media.NONE and Media.ALL in media:
            return False
        return not any(each.overlaps(start, shape.memory_slices) for each in self.instances)

    @rule(enabled=st.booleans())
    def set_mode(self, enabled: bool) -> None:
        expected = IN_USE if enabled != self.mig and (self.instances or self.processes) else 0
        assert nvml.nvmlDeviceSetMigMode(self.gpu, int(enabled)) == expected
        if expected == 0:
            self.mig = enabled
        elif enabled != self.mig:
            # What is pending would become active at a reset; the model takes it back.
            assert nvml.nvmlDeviceGetMigMode(self.gpu) == [int(self.mig), int(enabled)]
            nvml.nvmlDeviceSetMigMode(self.gpu, int(self.mig))

    @rule(data=st.data())
    def create(self, data: st.DataObject) -> None:
        profile = data.draw(st.sampled_from(self.profiles))
        start = data.draw(st.sampled_from(sorted(profile.shape.starts)))
        placement = nvml.c_nvmlGpuInstancePlacement_t(start, profile.shape.memory_slices)
        call = nvml.nvmlDeviceCreateGpuInstanceWithPlacement
        if self.mig and self.fits(profile, start):
            handle = call(self.gpu, profile.shape.id, byref(placement))
            self.instances.append(Instance(profile, start, handle))
        else:
            error = calls.error_of(call, self.gpu, profile.shape.id, byref(placement))
            assert error == (INSUFFICIENT_RESOURCES if self.mig else NOT_SUPPORTED)

    @precondition(lambda self: self.instances)
    @rule(data=st.data())
    def create_compute(self, data: st.DataObject) -> None:
        instance = data.draw(st.sampled_from(self.instances))
        compute = data.draw(st.sampled_from(instance.profile.compute_profiles))
        taken = [range(start, start + slices) for slices, start, _ in instance.computes.values()]
        free = [
            start
            for start in compute.starts
            if not any(each in range(start, start + compute.slices) for other in taken for each in other)
        ]
        left = nvml.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(instance.handle, compute.kind)
        assert left == len(free)
        call = nvml.nvmlGpuInstanceCreateComputeInstance
        if not free:
            assert calls.error_of(call, instance.handle, compute.kind) == INSUFFICIENT_RESOURCES
            return
        info = nvml.nvmlComputeInstanceGetInfo(call(instance.handle, compute.kind))
        assert info.placement.start == free[0]
        assert info.id == min(set(range(8)) - instance.computes.keys())
        uuid = nvml.nvmlDeviceGetUUID(info.device)
        assert uuid not in self.uuids_seen
        self.uuids_seen.add(uuid)
        instance.computes[info.id] = (compute.slices, free[0], uuid)

    @precondition(lambda self: self.instances)
    @rule(data=st.data())
    def destroy(self, data: st.DataObject) -> None:
        instance = data.draw(st.sampled_from(self.instances))
        assert calls.error_of(nvml.nvmlGpuInstanceDestroy, instance.handle) == (IN_USE if instance.computes else 0)
        if not instance.computes:
            self.instances.remove(instance)

    @precondition(lambda self: any(each.computes for each in self.instances))
    @rule(data=st.data())
    def destroy_compute(self, data: st.DataObject) -> None:
        instance = data.draw(st.sampled_from([each for each in self.instances if each.computes]))
        number = data.draw(st.sampled_from(sorted(instance.computes)))
        handle = nvml.nvmlGpuInstanceGetComputeInstanceById(instance.handle, number)
        used = instance.computes[number][2] in self.processes.values()
        assert calls.error_of(nvml.nvmlComputeInstanceDestroy, handle) == (IN_USE if used else 0)
        if not used:
            del instance.computes[number]

    @precondition(lambda self: any(each.computes for each in self.instances) or not self.mig)
    @rule(data=st.data())
    def start_process(self, data: st.DataObject) -> None:
        devices = [compute[2] for each in self.instances for compute in each.computes.values()]
        uuid = data.draw(st.sampled_from(devices or [self.uuid]))
        pid = max(self.processes, default=0) + 1
        self.node.start_process(uuid, pid, 1024)
        self.processes[pid] = uuid

    @precondition(lambda self: self.processes)
    @rule(data=st.data())
    def stop_process(self, data: st.DataObject) -> None:
        pid = data.draw(st.sampled_from(sorted(self.processes)))
        self.node.stop_process(self.processes.pop(pid), pid)

    @precondition(lambda self: not self.processes)
    @rule()
    def reset(self) -> None:
        self.node.reset_gpu(self.uuid)
        self.instances.clear()

    @rule(reboot=st.booleans())
    def restart(self, reboot: bool) -> None:
        self.node.reboot() if reboot else self.node.reload_driver()
        self.instances.clear()
        self.processes.clear()
        self.mig = self.mig and sim.MODELS[self.model].mig_mode_persists

    @rule()
    def kill_a_program_within_a_change(self) -> None:
        """What it has changed so far is undone by the next one who takes the lock."""
        with store.locked(self.node.state) as state:
            rules.begin_change(state, 0)
            gpu = state.gpus[0]
            ctypes.memset(gpu.gpu_instances, 0x55, ctypes.sizeof(gpu.gpu_instances))
            gpu.generation += 7
            gpu.mig_mode_current = not self.mig

    @rule()
    def kill_a_program_before_it_has_written_files(self) -> None:
        with store.locked(self.node.state) as state:
            shutil.rmtree(self.node.proc / "driver/nvidia/capabilities/gpu0/mig")
            state.files_stale = 1

    @precondition(lambda self: self.mig)
    @rule(data=st.data())
    def lone_instance(self, data: st.DataObject) -> None:
        profile = data.draw(st.sampled_from(self.profiles))
        start = data.draw(st.sampled_from(sorted(profile.shape.starts)))
        fault = faults.LoneGpuInstance(self.uuid, profile.name, start)
        if not self.fits(profile, start):
            with pytest.raises(sim.SimError, match="NVML error 23"):
                self.node.inject(fault)
            return
        self.node.inject(fault)
        (new,) = [
            handle
            for handle in calls.gpu_instances(self.gpu)
            if nvml.nvmlGpuInstanceGetInfo(handle).placement.start == start
        ]
        self.instances.append(Instance(profile, start, new))

    def expected(self) -> list[tuple[str, int, dict[int, tuple[int, int, str]]]]:
        return sorted((each.profile.name, each.start, each.computes) for each in self.instances)

    @invariant()
    def python_agrees(self) -> None:
        (gpu,) = self.node.gpus()
        assert gpu.mig_mode == sim.MigMode(current=self.mig, pending=self.mig)
        assert {process.pid for process in gpu.processes} == self.processes.keys()
        seen = [
            (each.profile, each.start, {ci.id: (ci.size, ci.start, ci.uuid) for ci in each.compute_instances})
            for each in gpu.gpu_instances
        ]
        assert sorted(seen) == self.expected()
        indexes = [ci.index for each in gpu.gpu_instances for ci in each.compute_instances]
        assert len(set(indexes)) == len(indexes)
        assert all(index < sim.MODELS[self.model].max_mig_devices for index in indexes)

    @invariant()
    def nvml_agrees(self) -> None:
        gpu = self.gpu
        assert nvml.nvmlDeviceGetMigMode(gpu) == [int(self.mig)] * 2
        uuids = {nvml.nvmlDeviceGetUUID(device) for device in calls.mig_devices(gpu).values()}
        assert uuids == {compute[2] for each in self.instances for compute in each.computes.values()}
        if not self.mig:
            return
        infos = [nvml.nvmlGpuInstanceGetInfo(handle) for handle in calls.gpu_instances(gpu)]
        assert sorted((info.profileId, info.placement.start) for info in infos) == sorted(
            (each.profile.shape.id, each.start) for each in self.instances
        )
        for instance in self.instances:
            assert nvml.nvmlGpuInstanceGetInfo(instance.handle).placement.start == instance.start

    @invariant()
    def capacities_are_true(self) -> None:
        if not self.mig:
            return
        for profile in self.profiles:
            free = sum(self.fits(profile, start) for start in profile.shape.starts)
            there = sum(each.profile is profile for each in self.instances)
            capacity = nvml.nvmlDeviceGetGpuInstanceRemainingCapacity(self.gpu, profile.shape.id)
            assert capacity == min(free, profile.shape.max_instances - there)

    @invariant()
    def files_agree(self) -> None:
        expected = {}
        (gpu,) = self.node.gpus()
        for each in gpu.gpu_instances:
            minor = 3 + 9 * each.id
            expected[f"gpu0/mig/gi{each.id}/access"] = minor
            for ci in each.compute_instances:
                expected[f"gpu0/mig/gi{each.id}/ci{ci.id}/access"] = minor + 1 + ci.id
        assert calls.capability_files(self.node.directory) == expected
        devices = {path.name for path in (self.node.dev / "nvidia-caps").iterdir()}
        assert devices == {f"nvidia-cap{minor}" for minor in (1, 2, *expected.values())}


def _case(model: str) -> Any:
    machine: Any = type(f"Machine{model}", (Machine,), {"model": model})
    machine.TestCase.settings = settings(stateful_step_count=30)
    return machine.TestCase


TestA30 = _case("A30")
TestA100 = _case("A100-80GB")
TestH100 = _case("H100-80GB")
TestRtxPro = _case("RTX-PRO-6000")
