"""The agent where there is neither scheduler nor kubelet: tests of other files, on the embedded API server.

They need no build of Kubernetes. The files that they come from run them on the real one.
"""

from collections.abc import AsyncIterator

import pytest_asyncio

from agent.claims.test_verdicts import (  # noqa: F401
    test_a_gpu_closes_in_one_pool_before_it_appears_in_another,
    test_nothing_is_prepared_before_the_operator_has_said_yes,
    test_who_is_denied_fails_at_once_and_who_is_there_is_not_disturbed,
)
from agent.health.test_node_health import (  # noqa: F401
    test_gpu_with_a_fatal_error_is_for_nobody_new_until_it_was_reset,
)
from agent.on_cluster import install
from agent.publishing.test_publication import (  # noqa: F401
    test_gpu_in_use_drains_and_follows_when_its_claim_leaves,
    test_half_a_pool_is_written_anew,
    test_last_word_holds_although_nobody_remembers_it,
    test_slices_come_back_when_the_kubelet_has_deleted_them,
    test_two_ways_exclude_each_other_by_counters_and_one_way_needs_none,
)
from agent.test_start_and_end import test_sigterm_ends_it_soon_and_removes_its_sockets  # noqa: F401
from harness.api_servers import EMBEDDED, AnyControlPlane, api_server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installed() -> AsyncIterator[AnyControlPlane]:
    async with api_server(EMBEDDED) as server:
        await install(server)
        yield server
