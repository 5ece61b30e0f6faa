"""`gpusharing agent cleanup`: before the agent is uninstalled, its node becomes as it was found."""

from pathlib import Path

from gpusharing.agent.containers.cdi import CdiDirectory
from gpusharing.agent.kubelet.server import sockets
from gpusharing.agent.settling.settler import Settler
from gpusharing.agent.state.files import quarantined
from gpusharing.agent.state.records import Records
from gpusharing.core.publishing.mig_at_rest import Cut
from gpusharing.nvidia import hostile_files
from gpusharing.nvidia.errors import HardwareError
from gpusharing.nvidia.gpu_node import GpuNode


async def clean_up(
    hardware: GpuNode,
    *,
    state: Path,
    mps_home: Path,
    proc_root: Path,
    cdi: CdiDirectory,
    kubelet_root: Path,
    driver: str,
) -> list[str]:
    """What is left, and why: then nothing is forgotten, and it can be tried again."""
    await hardware.open()
    records = Records(state, proc_root=proc_root, runtime=mps_home)
    claims = records.all_claims.values()
    left = [f"claim {claim.display_name} is prepared: delete the pods that use it" for claim in claims]
    left += [
        f"{file} is damaged, so settings of the GPU or claim of this name may not be restored: check it, then delete "
        "the file"
        for file in quarantined(state)
    ]
    left += await _settled(hardware, records, mps_home)
    await hardware.close()
    if not left:
        for uid in cdi.claims():
            cdi.delete(uid)
        cdi.delete_generated()
        for socket in sockets(kubelet_root, driver):
            socket.unlink(missing_ok=True)
        _empty(mps_home)
        _empty(state)
    return left


async def _settled(hardware: GpuNode, records: Records, mps_home: Path) -> list[str]:
    def at_rest(uuid: str) -> Cut:
        return Cut(mig_mode=records.gpu(uuid).mig_mode_found)

    settler = Settler(hardware, records, mps_home=mps_home, at_rest=at_rest)
    left: list[str] = []
    found = {board.uuid for board in (await hardware.inventory()).boards}
    for uuid in sorted(found | set(records.changed_gpus)):
        if records.holders_of(uuid):
            continue
        try:
            await settler.settle(uuid)
            await settler.rest(uuid)
        except HardwareError as error:
            left.append(str(error))
    return left


def _empty(directory: Path) -> None:
    """It may be a mount of its own, so it stays."""
    for path in directory.iterdir() if directory.is_dir() else ():
        hostile_files.remove(path)
