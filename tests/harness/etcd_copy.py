"""A copy of what etcd has stored, to which it can be put back, as after a disaster."""

import asyncio
import base64
import os
import shutil
import signal
from pathlib import Path

import aiohttp

from harness.controlplane import ControlPlane


class EtcdCopy:
    def __init__(self, control_plane: ControlPlane) -> None:
        """Takes it as of now: etcd stands still meanwhile."""
        self._control_plane = control_plane
        self._stored = control_plane.directory / "etcd"
        self._copy = Path(f"{self._stored}-copy")
        os.kill(control_plane.etcd.pid, signal.SIGSTOP)
        try:
            shutil.rmtree(self._copy, ignore_errors=True)
            shutil.copytree(self._stored, self._copy)
        finally:
            os.kill(control_plane.etcd.pid, signal.SIGCONT)

    async def put_back(self, *, away: float) -> None:
        """`away`: seconds for which there is no API server beside what the restart takes."""
        await self._control_plane.apiserver.kill()
        await self._control_plane.etcd.kill()
        await asyncio.sleep(away)
        shutil.rmtree(self._stored)
        shutil.copytree(self._copy, self._stored)
        await self._control_plane.etcd.start()
        await self._control_plane.apiserver.start()


async def raise_revision(control_plane: ControlPlane, by: int) -> None:
    """As the writes of others do in time."""
    (url,) = (
        option.partition("=")[2] for option in control_plane.etcd.argv if option.startswith("--advertise-client-urls=")
    )
    body = {"key": base64.b64encode(b"/noise").decode(), "value": ""}
    async with aiohttp.ClientSession(url) as etcd:
        for _ in range(by):
            async with etcd.post("/v3/kv/put", json=body) as answer:
                assert answer.status == 200
