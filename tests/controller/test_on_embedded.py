"""The operator where there is neither scheduler nor kubelet: tests of other files, on the embedded API server.

They need no build of Kubernetes. The files that they come from run them on the real one.
"""

from collections.abc import AsyncIterator

import pytest_asyncio

from controller.bed import Operator, install
from controller.test_operator import (  # noqa: F401
    test_a_kill_loses_nothing_and_repeats_nothing,
    test_a_policy_is_resolved_reported_and_taken_back,
    test_a_restart_writes_nothing,
    test_events_are_told_only_when_ready_changes,
    test_what_others_put_on_a_node_sharing_stays,
)
from controller.test_policies import (  # noqa: F401
    test_a_gpu_that_is_not_reported_for_a_while_comes_back_as_it_was,
    test_a_plan_is_told_and_nothing_else_is_written,
    test_claims_are_told_what_a_policy_does_not_give_them_any_more,
    test_each_condition_is_reached,
    test_each_reason_is_reached_by_a_situation,
    test_two_policies_fight,
    they,
)
from harness.api_servers import EMBEDDED, AnyControlPlane, api_server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster() -> AsyncIterator[AnyControlPlane]:
    async with api_server(EMBEDDED) as server:
        await install(server)
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(cluster: AnyControlPlane) -> AsyncIterator[Operator]:
    async with await Operator.of(cluster, "--lease-duration=60") as operator:
        yield operator
