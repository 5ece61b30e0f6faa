"""The real kube-scheduler, with all that is around its allocator: pods come and go, and each gets what we say."""

import pytest

from allocating.fuzz import report
from allocating.on_scheduler import compare

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("lanes", "pods"), [pytest.param(1, 36, id="one-cluster"), pytest.param(8, 120, id="side-by-side")]
)
async def test_each_pod_gets_what_we_say(toolchain: object, lanes: int, pods: int) -> None:
    del toolchain
    findings = await compare(37, pods, lanes=lanes)
    assert not findings.differences, report(findings)
    assert findings.outcomes.total() + findings.given_up == pods
    assert findings.given_up < pods / 10
    assert min(findings.outcomes[outcome] for outcome in ("fits", "does not fit")) > pods / 5
