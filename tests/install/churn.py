"""Pods that come and go meanwhile."""

import asyncio
import time
from typing import Final

from harness.workloads import pod
from node.user import AnyUser

RETRIED_WITHIN: Final = 60.0
"""Of a pod's start: the agent's, then the kubelet's next sync, on a machine that is busy."""


async def come_and_go(user: AnyUser, name: str, *, template: str, until: asyncio.Event) -> list[float]:
    """How long each pod took to start: at least one is on its way at any time, and one comes after the end."""
    starts: list[float] = []
    is_last = False
    while not is_last:
        is_last = until.is_set()
        comes = f"{name}-{len(starts)}"
        began = time.monotonic()
        await user.apply(pod(comes, template=template))
        await user.wait(f"pod/{comes}", "--for=condition=Ready")
        starts.append(time.monotonic() - began)
        await user.delete("pod", comes, "--wait=false")
    return starts
