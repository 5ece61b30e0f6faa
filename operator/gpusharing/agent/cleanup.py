"""`gpusharing agent cleanup`: before the agent is uninstalled, its node becomes as it was found.

Pods that use GPUs are not disturbed. The kubelet lets none of them end without the driver, so their claims are taken
back here.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Final

from gpusharing.agent.claims.reading import ClaimRef, PrepareError
from gpusharing.agent.cleanup_report import CleanupReport
from gpusharing.agent.containers.cdi import CdiDirectory
from gpusharing.agent.health.conditions import CleanupReason
from gpusharing.agent.kubelet.health_stream import HealthService
from gpusharing.agent.kubelet.server import PluginServer, sockets
from gpusharing.agent.kubelet.service import DraService
from gpusharing.agent.settling.settler import Settler
from gpusharing.agent.state.files import quarantined
from gpusharing.agent.state.models import PreparedClaim
from gpusharing.agent.state.records import Records
from gpusharing.core.publishing.mig_at_rest import Cut
from gpusharing.core.text import listed
from gpusharing.kube.address import Address
from gpusharing.kube.http_server import Answer, Pages, serving
from gpusharing.nvidia import hostile_files
from gpusharing.nvidia.errors import HardwareError
from gpusharing.nvidia.gpu_node import GpuNode

# Seconds. Others may have removed the sockets.
_LOOK_EVERY: Final = 5.0
# Nobody hears of answers that are sent after the sockets are closed, and without them the last pods could not end.
_ANSWERS_WITHIN: Final = 1.0


async def clean_up(
    hardware: GpuNode,
    *,
    state: Path,
    mps_home: Path,
    proc_root: Path,
    cdi: CdiDirectory,
    kubelet_root: Path,
    driver: str,
    listen: Address,
    say: Callable[[str], None],
    report: CleanupReport | None,
) -> list[str]:
    """Waits until no claim is prepared, and says which ones are. Returns what is left, and why: then nothing is
    forgotten, and it can be tried again."""
    await hardware.open()
    records = Records(state, proc_root=proc_root, runtime=mps_home)

    async def tell(reason: CleanupReason, message: str) -> list[str]:
        """The NodeSharing's problems, if any."""
        why_not = await report.write(reason, message, claims=records.all_claims) if report else ""
        return [why_not] if why_not else []

    if records.all_claims:
        claims = _Claims(records, cdi)
        service = DraService(claims.refuse, claims.take_back)
        # Whether GPUs are well, nobody looks any more.
        health = HealthService(lambda: (), lambda _: ())
        server = PluginServer(service, health, kubelet_root=kubelet_root, driver=driver)
        async with server, serving(listen, _pages(records)):
            said: set[str] = set()
            while records.all_claims:
                await server.renew()
                claims.changed.clear()
                problems = [*_in_use(records), *await _settled(hardware, records, mps_home)]
                problems += await tell(
                    CleanupReason.WAITING, f"the clean-up of this node waits: {listed(problems, separator='; ')}"
                )
                for problem in problems:
                    if problem not in said:
                        say(problem)
                said.update(problems)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_EVERY):
                        await claims.changed.wait()
            await asyncio.sleep(_ANSWERS_WITHIN)
    left = [
        f"{file} is damaged or written by a newer agent, so settings of the GPU or claim of this name may not be "
        "restored: check it, then delete the file"
        for file in quarantined(state)
    ]
    left += await _settled(hardware, records, mps_home)
    await hardware.close()
    if left:
        await tell(
            CleanupReason.FAILED,
            f"the clean-up of this node failed, and is tried again: {listed(left, separator='; ')}",
        )
    else:
        for uid in cdi.claims():
            cdi.delete(uid)
        cdi.delete_generated()
        for socket in sockets(kubelet_root, driver):
            socket.unlink(missing_ok=True)
        _empty(mps_home)
        _empty(state)
        await tell(
            CleanupReason.DONE,
            "nothing of the agent is left on this node: uninstall it, or let it run as the agent again",
        )
    return left


class _Claims:
    """What the kubelet may do with claims: end their use."""

    def __init__(self, records: Records, cdi: CdiDirectory) -> None:
        self._records = records
        self._cdi = cdi
        self.changed = asyncio.Event()

    async def refuse(self, ref: ClaimRef, _within: float) -> PreparedClaim:
        raise PrepareError(
            f"claim {ref.display_name}: gpusharing is being uninstalled from this node: delete the pod, or install it "
            "again"
        )

    async def take_back(self, ref: ClaimRef, _within: float) -> None:
        """Its GPUs are restored afterwards: no pod waits for that."""
        try:
            self._cdi.delete(ref.uid)
            self._records.drop_claim(ref.uid)
        except OSError as error:
            raise PrepareError(f"claim {ref.display_name}: {error}") from error
        self.changed.set()


def _pages(records: Records) -> Pages:
    """The probes of the agent's pod would end it."""

    async def healthz() -> Answer:
        return Answer(body=b"ok\n")

    async def readyz() -> Answer:
        body = f"cleaning up, {len(records.all_claims)} claims are prepared\n"
        return Answer(status=HTTPStatus.SERVICE_UNAVAILABLE, body=body.encode())

    return {"/healthz": healthz, "/readyz": readyz}


def _in_use(records: Records) -> list[str]:
    return [
        f"claim {claim.display_name} uses {_gpus(claim)}: delete the pods that use it"
        for claim in records.all_claims.values()
    ]


def _gpus(claim: PreparedClaim) -> str:
    return " and ".join(f"GPU {uuid}" for uuid in sorted({device.uuid for device in claim.devices}))


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
