"""A control plane whose scheduler hears of ResourceSlices late, and may meet other troubles of a busy API server."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from gpusharing.kube import client_credentials
from gpusharing.kube.transport import open_session
from harness.controlplane import ControlPlane
from harness.kubeconfig import write_kubeconfig
from harness.loopback import free_ports
from harness.processes import Process
from harness.readiness import answers

_FORWARDED: Final = ("Accept", "Content-Type", "User-Agent")
_USER: Final = "system:kube-scheduler"


class Lateness:
    """When the scheduler may hear of one kind of object."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._open = asyncio.Event()
        self._open.set()

    def hold(self) -> None:
        """From now on nothing comes through."""
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    async def delayed(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """In their order. What waits does not keep the API server from sending more."""
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def receive() -> None:
            async for chunk in chunks:
                queue.put_nowait((time.monotonic(), chunk))
            queue.put_nowait((0, b""))

        receiving = asyncio.create_task(receive())
        try:
            while True:
                arrived, chunk = await queue.get()
                if not chunk:
                    await receiving
                    return
                await asyncio.sleep(max(0, arrived + self.seconds - time.monotonic()))
                await self._open.wait()
                yield chunk
        finally:
            receiving.cancel()


@dataclass(frozen=True)
class HeldAllocation:
    is_decided: asyncio.Event = field(default_factory=asyncio.Event)
    may_go: asyncio.Event = field(default_factory=asyncio.Event)


class SchedulerProxy:
    """Stands between the scheduler and the API server."""

    def __init__(self) -> None:
        self.slices = Lateness()
        self.claims = Lateness()
        self.unanswered: set[str] = set()
        """Claims of which the scheduler did not hear that their allocation was stored."""
        self._next_unanswered: asyncio.Event | None = None
        self._next_held: HeldAllocation | None = None
        self._stack = AsyncExitStack()
        self._session: aiohttp.ClientSession
        self._target: str
        self.url: str

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._handle)
        server = await self._stack.enter_async_context(TestServer(app))
        self.url = str(server.make_url("/"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def lead_to(self, kubeconfig: Path) -> None:
        """The API server, as whoever the kubeconfig is of."""
        credentials = await client_credentials.load(kubeconfig)
        self._target = credentials.server
        self._session = await self._stack.enter_async_context(open_session(credentials))

    def leave_next_allocation_unanswered(self) -> asyncio.Event:
        """The scheduler shall not know that it was stored, until the claims are released. Set when it was."""
        self._next_unanswered = asyncio.Event()
        return self._next_unanswered

    def hold_next_allocation(self) -> "HeldAllocation":
        """It is decided, and on its way for as long as the test wants."""
        self._next_held = HeldAllocation()
        return self._next_held

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        headers = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
        # One client holds a dozen watches, which end when it wants.
        timeout = aiohttp.ClientTimeout(total=None)
        body = await request.read() or None
        stored = self._next_unanswered if self._is_allocation(request) else None
        if stored:
            self._next_unanswered = None
            self.unanswered.add(request.path.split("/")[-2])
            self.claims.hold()
        if self._next_held and self._is_allocation(request):
            held, self._next_held = self._next_held, None
            held.is_decided.set()
            await held.may_go.wait()
        async with self._session.request(
            request.method, self._target + request.path_qs, headers=headers, data=body, timeout=timeout
        ) as answer:
            if stored:
                stored.set()
                return _gateway_timeout()
            headers = {"Content-Type": answer.headers.get("Content-Type", "application/json")}
            response = web.StreamResponse(status=answer.status, headers=headers)
            await response.prepare(request)
            async for chunk in self._chunks(request, answer.content.iter_any()):
                await response.write(chunk)
            return response

    def _is_allocation(self, request: web.Request) -> bool:
        return request.method == "PUT" and "/resourceclaims/" in request.path and request.path.endswith("/status")

    def _chunks(self, request: web.Request, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        if request.method == "GET" and request.path.endswith("/resourceslices"):
            return self.slices.delayed(chunks)
        if request.method == "GET" and request.path.endswith("/resourceclaims"):
            return self.claims.delayed(chunks)
        return chunks


def _gateway_timeout() -> web.Response:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Timeout", "code": 504}
    return web.json_response(status | {"message": "the answer did not come in time"}, status=504)


@dataclass(kw_only=True, eq=False, repr=False)
class LateControlPlane(ControlPlane):
    """Its fixtures and tests need one event loop: the proxy runs in it."""

    with_second_apiserver: bool = False
    """To which the scheduler writes; everybody else talks to the first."""

    second_port: int = field(init=False)

    proxy: SchedulerProxy = field(init=False)

    async def _start(self, stack: AsyncExitStack) -> None:
        self.proxy = await stack.enter_async_context(SchedulerProxy())
        await super()._start(stack)
        if self.with_second_apiserver:
            await self._lead_to_second(stack)

    async def _lead_to_second(self, stack: AsyncExitStack) -> None:
        (port,) = free_ports(self.address, 1)
        self.second_port = port
        url = f"https://{self.address}:{port}"
        second = Process(
            [
                f"--secure-port={port}" if str(flag).startswith("--secure-port=") else flag
                for flag in self.apiserver.argv
            ],
            log=self.directory / "logs" / "second-kube-apiserver.log",
            ready=lambda: answers(f"{url}/readyz", ca=self.ca.certificate),
            stop_within=8,
        )
        await stack.enter_async_context(second.killed_at_end())
        certificate = await self.ca.client(_USER)
        path = self.directory / "second.kubeconfig"
        await self.proxy.lead_to(write_kubeconfig(path, server=url, ca=self.ca.certificate, user=certificate))

    async def _scheduler(self, port: int) -> Process:
        await self.proxy.lead_to(await self.user_kubeconfig(_USER))
        kubeconfig = self._write("late-scheduler.kubeconfig", _kubeconfig(self.proxy.url))
        connection = {"kubeconfig": str(kubeconfig), "qps": 2000, "burst": 2000}
        configuration: dict[str, Any] = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": connection,
            "leaderElection": {"leaderElect": False},
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 1,
        }
        return await self._client("kube-scheduler", port, f"--config={self._write('scheduler.json', configuration)}")

    def _write(self, name: str, content: Any) -> Path:
        path = self.directory / name
        path.write_text(json.dumps(content))
        return path


def _kubeconfig(server: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server}}],
        "users": [{"name": "test", "user": {}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
