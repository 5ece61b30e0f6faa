"""`gpusharing agent cleanup`: before the agent is uninstalled, its node becomes as it was found."""

import shutil
from pathlib import Path

from gpusharing.agent.cdi import CdiDirectory
from gpusharing.agent.dra.server import sockets
from gpusharing.agent.files import quarantined
from gpusharing.agent.hardware.errors import HardwareError
from gpusharing.agent.hardware.protocol import GpuNode
from gpusharing.agent.records import Records
from gpusharing.agent.settling.settler import Settler
from gpusharing.core.publishing.mig_at_rest import Cut


async def clean_up(
    hardware: GpuNode, *, state: Path, shm: Path, proc_root: Path, cdi: CdiDirectory, kubelet_root: Path, driver: str
) -> list[str]:
    """What is left, and why: then nothing is forgotten, and it can be tried again."""
    await hardware.open()
    records = Records(state, proc_root=proc_root)
    left = [f"claim {claim.display_name} is prepared: delete the pods that use it" for claim in records.claims.values()]
    left += [
        f"{file} could not be trusted, so it is not known whether it is about something that has to be put back: look "
        "at the GPU or claim of this name, then delete the file"
        for file in quarantined(state)
    ]
    left += await _settled(hardware, records, state, shm)
    await hardware.close()
    if not left:
        for uid in cdi.claims():
            cdi.delete(uid)
        for socket in sockets(kubelet_root, driver):
            socket.unlink(missing_ok=True)
        shutil.rmtree(shm, ignore_errors=True)
        _empty(state)
    return left


async def _settled(hardware: GpuNode, records: Records, state: Path, shm: Path) -> list[str]:
    def at_rest(uuid: str) -> Cut:
        return Cut(mig_mode=records.gpu(uuid).mig_mode_found)

    settler = Settler(hardware, records, mps_home=state / "mps", shm_home=shm, at_rest=at_rest)
    left: list[str] = []
    found = {board.uuid for board in (await hardware.inventory()).boards}
    for uuid in sorted(found | set(records.changed_gpus)):
        if records.claims_on(uuid):
            continue
        try:
            await settler.settle(uuid)
            await settler.rest(uuid)
        except HardwareError as error:
            left.append(str(error))
    return left


def _empty(directory: Path) -> None:
    """It may be a mount of its own, so it stays."""
    for path in directory.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
