"""Kopf with our handlers, before a real API server: as a program of Kopf's, and among objects that nobody expects."""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import kopf
import pytest
import pytest_asyncio

from building import DRIVER
from controller.bed import Everybody, Operator, eventually, everybody, install
from gpusharing.controller import handlers as handlers  # noqa: PLC0414 (Kopf knows them once they are imported)
from gpusharing.controller.following import HANDLED
from gpusharing.kube.kinds import RESOURCE_CLAIMS
from harness.controlplane import ControlPlane
from harness.gpu_cluster import NAMESPACE
from harness.processes import Process

DEEP: Final = "[" * 5000 + "]" * 5000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(toolchain: object) -> AsyncIterator[ControlPlane]:
    async with ControlPlane() as control_plane:
        await install(control_plane)
        yield control_plane


@pytest_asyncio.fixture
async def they(cluster: ControlPlane) -> AsyncIterator[Everybody]:
    async with everybody(cluster) as they:
        yield they
        await they.clean_up()


def test_there_is_a_handler_for_each_kind_that_is_left_to_kopf() -> None:
    watching = kopf.get_default_registry()._watching.get_all_handlers()
    selectors = {handler.selector for handler in watching if handler.selector}
    found = {(selector.group, selector.version, selector.any_name) for selector in selectors}
    assert found == {(kind.group, kind.version, kind.plural) for kind in HANDLED}


@pytest.mark.cluster
async def test_kopf_runs_the_operator_for_who_develops_it(cluster: ControlPlane, they: Everybody) -> None:
    kubeconfig = await cluster.service_account_kubeconfig(NAMESPACE, "gpusharing-operator")
    argv = [sys.executable, "-m", "kopf", "run", "-m", "gpusharing.controller.handlers", "--all-namespaces"]
    log = cluster.directory / "logs" / "kopf-run.log"
    await they.make_node("n1")
    async with Process(argv, log=log, ready=None, env={**os.environ, "KUBECONFIG": str(kubeconfig)}):
        await eventually(lambda: they.winners("n1"), [None], within=30)
        await they.apply_policy("shared")
        await eventually(lambda: they.winners("n1"), ["shared"])
        await they.agent_acts("n1")
        await eventually(lambda: they.ready_reason("shared"), "Ready")
