"""What must hold after every step of a history, and at its end."""

from collections.abc import Iterator
from typing import Final

from agent.histories.containers import Injected, injected, spec_of
from agent.histories.others import Others
from agent.histories.verdicts import go_together
from agent.histories.world import Claim, Violation
from gpusharing import sim
from gpusharing.api import names
from gpusharing.api.dra import AllocationResult
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.offers import Interval
from gpusharing.core.quantities import whole_mebibytes
from gpusharing.sim.devices import Major, compute_instance_capability, gpu_instance_capability
from harness.mounts import daemons_in

_INTERVALS: Final[dict[sim.Timeslice | None, Interval]] = {
    slice_: Interval(slice_.name.capitalize()) for slice_ in sim.Timeslice
}
_MODES: Final = {
    sim.ComputeMode.DEFAULT: "Default",
    sim.ComputeMode.PROHIBITED: "Prohibited",
    sim.ComputeMode.EXCLUSIVE_PROCESS: "ExclusiveProcess",
}


def check(world: Others) -> None:
    world.now = world.bed.gpus()
    for problem in (*_always(world), *(_when_settled(world) if _is_settled(world) else ())):
        raise Violation(problem)


def _is_settled(world: Others) -> bool:
    # While it is not known what a claim holds, nothing is set back.
    return not (world.agent is None or world.agent.records.lost_claims or world.unsettled or world.lasting)


# ---------------------------------------------------------------------------------------------------- at any moment


def _always(world: Others) -> Iterator[str]:
    yield from _nobody_is_disturbed(world)
    yield from _nothing_of_others_is_touched(world)
    for uuid in world.bed.uuids:
        yield from _one_way(world, uuid)
    yield from _containers_get_their_own(world)
    yield from _problems_are_reported(world)


def _nobody_is_disturbed(world: Others) -> Iterator[str]:
    for claim in world.claims.values():
        if claim.container is None or claim.forgotten or "lost" in world.lasting:
            continue
        if disturbed := claim.container.disturbed(world.now.values()):
            yield f"{claim.uid}: {disturbed}"


def _nothing_of_others_is_touched(world: Others) -> Iterator[str]:
    now = world.now
    for uuid, gpu in world.gpus.items():
        there = {part.uuid for instance in now[uuid].gpu_instances for part in instance.compute_instances}
        if gone := gpu.instances - there:
            yield f"instances {gone} on {uuid} are of others, and gone"
        mode = now[uuid].mig_mode
        if gpu.mig and mode and not mode.current:
            yield f"others have switched MIG on on {uuid}, and it is off"


def _one_way(world: Others, uuid: str) -> Iterator[str]:
    held = [(claim, result) for claim, result in world.on(uuid) if not claim.forgotten]
    for number, (claim, result) in enumerate(held):
        for other, other_result in held[:number]:
            if not go_together(result.device, other_result.device):
                yield f"{claim.uid} has {result.device} and {other.uid} has {other_result.device}"


def _containers_get_their_own(world: Others) -> Iterator[str]:
    for claim in world.claims.values():
        if claim.acked and not claim.forgotten:
            if not spec_of(world.bed, claim.uid).exists():
                yield f"{claim.uid} is prepared and has no CDI spec"
                continue
            for device, result in zip(injected(world.bed, claim.uid, claim.results), claim.results, strict=True):
                yield from _is_its_own(world, claim, result, device)


def _is_its_own(world: Others, claim: Claim, result: AllocationResult, device: Injected) -> Iterator[str]:
    uuid = world.uuid_of(result.device)
    who = f"{claim.uid} ({claim.kind.name}), {result.device}"
    place = names.read_device(result.device)
    if place is None or place.place is None or result.admin_access:
        if device.uuid != uuid:
            yield f"{who}: it is given {device.uuid}"
        if device.nodes:
            yield f"{who}: it is given device nodes {device.nodes}"
        own = f"/dev/nvidia{world.now[uuid].minor}"
        if others := world.bed.nvidia_nodes(uuid) - {own}:
            yield f"{who}: NVIDIA's CDI device leads to {others}, and its GPU is {own}"
    else:
        yield from _leads_into_its_instance(world, uuid, who, device)
    limits = _limits(device)
    if limits != (expected := _expected_limits(claim, result)):
        yield f"{who}: its limits are {limits}, not {expected}"
    pipes = [str(world.bed.mps_home / _daemon(claim, result) / "clients")] if expected else []
    if device.mps_pipes != pipes:
        yield f"{who}: it is given {device.mps_pipes}"
    for file in device.metadata:
        if not file.exists() or f'"name":"{result.device}"' not in file.read_text():
            yield f"{who}: {file} does not tell of it"


def _problems_are_reported(world: Others) -> Iterator[str]:
    """What keeps the agent from its work."""
    if world.agent is None or world.server.sharing is None or world.agent.changed.is_set():
        # It has a round to come.
        return
    (ready,) = (condition for condition in world.server.sharing.status.conditions if condition.type == "Ready")
    if untold := [problem for problem in world.agent.steps.problems if problem.message not in ready.message]:
        yield f"problems {untold} are not reported: {ready}"


def _leads_into_its_instance(world: Others, uuid: str, who: str, device: Injected) -> Iterator[str]:
    gpu = world.now[uuid]
    for instance in gpu.gpu_instances:
        for part in instance.compute_instances:
            leads = {
                (int(Major.CAPABILITIES), int(gpu_instance_capability(gpu.minor, instance.id))),
                (int(Major.CAPABILITIES), int(compute_instance_capability(gpu.minor, instance.id, part.id))),
            }
            if part.uuid != device.uuid and device.nodes & leads:
                yield f"{who}: it is let into {part.uuid}, and its own is {device.uuid}"
            # Of a GPU that was in MIG mode when NVIDIA's spec was written, containers have the GPU itself from ours.
            if part.uuid == device.uuid and device.nodes - {(int(Major.NVIDIA), gpu.minor)} != leads:
                yield f"{who}: {device.nodes} does not lead into its instance"


def _limits(device: Injected) -> tuple[int | None, int] | None:
    threads = device.environment.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
    memory = device.environment.get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")
    if threads is None:
        return None
    first = memory.partition(",")[0].partition("=")[2] if memory else None
    return int(first.removesuffix("M")) if first else None, int(threads)


def _expected_limits(claim: Claim, result: AllocationResult) -> tuple[int | None, int] | None:
    if result.admin_access:
        return None
    if names.sharing_of_device(result.device) is Sharing.MPS:
        consumed = result.consumed_capacity
        return whole_mebibytes(consumed["memory"]), int(consumed["threads"])
    return claim.kind.own_limit if names.sharing_of_device(result.device) is Sharing.EXCLUSIVE else None


def _daemon(claim: Claim, result: AllocationResult) -> str:
    shared = names.sharing_of_device(result.device) is Sharing.MPS
    return result.device.removesuffix("-mps") if shared else claim.uid


# ------------------------------------------------------------------------------------------- when nothing is under way


def _when_settled(world: Others) -> Iterator[str]:
    now = world.now
    assert world.agent
    for uuid, gpu in world.gpus.items():
        prepared = {claim.uid for claim, _ in world.agent.records.claims_on(uuid)}
        if gpu.spoiled or gpu.changed or uuid not in world.agent.gpus.uuids:
            continue
        if problem := world.agent.settler.problem(uuid):
            yield f"{uuid} is not as it should be, and nobody did anything to it: {problem}"
        if not prepared:
            yield from is_free(world, uuid, now[uuid])
            gpu.slices, gpu.modes = {now[uuid].timeslice}, {now[uuid].compute_mode}
            gpu.mig_modes = {now[uuid].mig_mode}
        elif prepared == {claim.uid for claim, _ in world.on(uuid)}:
            # Not where one of them is half prepared, or has lost its device without the agent's knowing.
            yield from _is_as_its_claims_want(world, uuid, now[uuid])
    yield from _is_on_disk(world)
    yield from _is_reported(world)


def _is_as_its_claims_want(world: Others, uuid: str, gpu: sim.Gpu) -> Iterator[str]:
    known = world.gpus[uuid]
    slices, modes = known.slices, known.modes
    for claim, result in world.on(uuid):
        if _expected_limits(claim, result):
            modes = {sim.ComputeMode.EXCLUSIVE_PROCESS}
            yield from _is_served(world, uuid, claim, result)
        elif names.sharing_of_device(result.device) is Sharing.TIME_SLICING:
            # Those who are to leave before the GPU goes to another pool have what they had.
            slices = {world.interval} if result.pool == world.pool else set(_INTERVALS)
            modes = {sim.ComputeMode.DEFAULT}
        elif claim.kind.interval and names.sharing_of_device(result.device) is Sharing.EXCLUSIVE:
            slices, modes = {sim.Timeslice[claim.kind.interval.upper()]}, {sim.ComputeMode.DEFAULT}
    if gpu.timeslice not in slices:
        yield f"the time slice of {uuid} is {gpu.timeslice!r}, not one of {slices}"
    if gpu.compute_mode not in modes:
        yield f"the compute mode of {uuid} is {gpu.compute_mode!r}, not one of {modes}"


def _is_served(world: Others, uuid: str, claim: Claim, result: AllocationResult) -> Iterator[str]:
    name = _daemon(claim, result)
    if name not in world.bed.daemons():
        yield f"{claim.uid} has no MPS daemon"
        return
    limits = _expected_limits(claim, result)
    assert limits
    answer = world.bed.ask_daemon(name, f"get_default_device_pinned_mem_limit {uuid}").strip()
    most = whole_mebibytes(answer.removesuffix("M") + "Mi") if answer.endswith("M") else None
    if limits[0] and most is not None and most < limits[0]:
        yield f"{claim.uid} may use {limits[0]} MiB, and its MPS daemon allows {most}"
    if most is None and limits[0]:
        yield f"the MPS daemon of {claim.uid} has no limit: {answer}"


def is_free(world: Others, uuid: str, gpu: sim.Gpu) -> Iterator[str]:
    """As it was before anybody had it, or as others have set it since."""
    known = world.gpus[uuid]
    if gpu.timeslice not in known.slices:
        yield f"{uuid} is free, and its time slice is {gpu.timeslice!r}, not one of {known.slices}"
    if gpu.compute_mode not in known.modes:
        yield f"{uuid} is free, and its compute mode is {gpu.compute_mode!r}, not one of {known.modes}"
    there = {part.uuid for instance in gpu.gpu_instances for part in instance.compute_instances}
    halves = [instance for instance in gpu.gpu_instances if not instance.compute_instances]
    if there != known.instances or halves:
        yield f"{uuid} is free, and cut into {there}, {halves}; of others are {known.instances}"
    if gpu.mig_mode not in known.mig_modes:
        yield f"{uuid} is free, and its MIG mode is {gpu.mig_mode}, not one of {known.mig_modes}"


def _is_on_disk(world: Others) -> Iterator[str]:
    known = {path.stem for path in (world.bed.state / "claims").glob("*.json")}
    asked = {claim.uid for claim in world.claims.values() if claim.asked}
    acked = {claim.uid for claim in world.claims.values() if claim.acked and not claim.forgotten}
    if not acked <= known <= asked:
        yield f"on disk are {known}; prepared are {acked}, asked for {asked}"
    specs = {path.stem.partition("_")[2] for path in world.bed.cdi.glob("gpusharing.dev-claim_*")}
    assert world.agent
    # Nothing is there for claims of an earlier boot before the kubelet asks for them again.
    prepared = set(world.agent.records.claims)
    if not prepared <= specs <= prepared | (asked - known):
        yield f"CDI specs are there for {specs}, prepared are {prepared}, on disk {known}"


def _is_reported(world: Others) -> Iterator[str]:
    assert world.agent
    assert world.server.sharing
    if world.agent.changed.is_set():
        # It has a round to come.
        return
    status = world.server.sharing.status
    problems = [problem for uuid in world.agent.gpus.uuids if (problem := world.agent.settler.problem(uuid))]
    (ready,) = (condition for condition in status.conditions if condition.type == "Ready")
    if [problem for problem in problems if problem.message not in ready.message]:
        yield f"problems {problems} are not reported: {ready}"


def _status_is_true(world: Others) -> Iterator[str]:
    """What nobody knows to undo any more, people find there."""
    assert world.server.sharing
    reported = {gpu.uuid: gpu for gpu in world.server.sharing.status.gpus}
    for uuid, gpu in world.bed.gpus().items():
        told, is_cut = reported[uuid], gpu.mig_mode is not None and gpu.mig_mode.current
        mode = None if is_cut else _MODES[gpu.compute_mode]
        if (told.time_slice, told.compute_mode) != (_INTERVALS[gpu.timeslice], mode):
            yield f"{uuid} is set to {gpu.timeslice!r}, {gpu.compute_mode!r}, reported as {told}"
        instances = {(one.profile, one.start) for one in gpu.gpu_instances}
        if instances != {(one.profile, one.start) for one in told.instances}:
            yield f"{uuid} is cut into {instances}, reported is {told.instances}"


# ------------------------------------------------------------------------------------------------------ at the end


async def finish(world: Others) -> None:
    """Everybody goes, and nothing remains."""
    world.trouble.disarm()
    world.heal()
    world.expects_trouble = False
    world.bed.sim.clear()
    for claim in list(world.claims.values()):
        if not await world.unprepare(claim):
            raise Violation(f"{claim.uid} cannot be given back")
        world.server.claims.pop(claim.uid, None)
    # What is of others must not go with what is ours.
    await world.agent_rescans()
    check(world)
    # Seen once more, now that everything has gone.
    await world.agent_rescans()
    for problem in _status_is_true(world):
        raise Violation(problem)
    world.others_leave()
    await world.agent_is_killed()
    await world.agent_rescans()
    if world.unsettled:
        raise Violation("it does not settle")
    for problem in _nothing_is_left(world):
        raise Violation(problem)


def _nothing_is_left(world: Others) -> Iterator[str]:
    now = world.bed.gpus()
    for uuid in world.gpus:
        yield from is_free(world, uuid, now[uuid])
        for home in (world.bed.state / "journal", world.bed.mps_home / ".journal"):
            if (journal := home / f"{uuid}.json").exists():
                yield f"{journal} still has {journal.read_text()}"
    if left := list((world.bed.state / "claims").glob("*.json")):
        yield f"claims are left: {left}"
    if left := list(world.bed.cdi.glob("*gpusharing*")):
        yield f"CDI specs are left: {left}"
    if left := list((world.bed.state / "metadata").iterdir()):
        yield f"files for containers are left: {left}"
    if daemons := daemons_in(world.bed.mps_home):
        yield f"MPS directories are left: {daemons}"
    if programs := world.bed.programs():
        yield f"processes are left: {programs}"
