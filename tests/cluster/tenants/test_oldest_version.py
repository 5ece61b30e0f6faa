"""The oldest Kubernetes that we support reads the guards in the same way."""

import pytest

from cluster.tenants.bed import GUARDS, a_bed, capacity, request
from harness.eventually import eventually

pytestmark = pytest.mark.cluster


async def test_guards_and_wall_on_1_36(toolchain: object) -> None:
    async with a_bed(emulated_version="1.36") as bed:
        by_class = await bed.other.gets(request("search-mps"))
        assert "namespace other is not one of its tenants (spec.tenants.namespaces); search-mps is" in by_class.says
        by_foreign_class = await bed.other.gets(request("any-gpu"))
        assert "gpusharing-allocation" in by_foreign_class.says
        assert "device n1/search/gpu-0 is reserved for them" in by_foreign_class.says
        too_much = await bed.tenant.gets(request("any-share", **capacity(memory="21Gi")))
        assert "a claim may have at most 20Gi of the memory of a shared GPU" in too_much.says
        (await bed.tenant.gets(request("search-mps"))).must()

        async def types_are_right() -> None:
            guards = (await bed.admin.ask("GET", GUARDS)).must()["items"]
            found = [(item["metadata"]["generation"], item.get("status", {})) for item in guards]
            assert [status for _, status in found] == [
                {"observedGeneration": generation, "typeChecking": {}} for generation, _ in found
            ]

        await eventually(types_are_right)
