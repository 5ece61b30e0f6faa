"""Probes, metrics and logs of a whole agent on a real API server."""

import json
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.kubelet.registrar import notify
from agent.metrics.pages import parsed
from agent.on_cluster import EXCLUSIVE, TIME_SLICING, GpuNode
from gpusharing.agent.metrics import catalogue
from harness.controlplane import ControlPlane
from harness.eventually import eventually

pytestmark = pytest.mark.cluster

PREFIX = "gpusharing_agent_"


async def get(node: GpuNode, path: str) -> tuple[int, str]:
    listening = node.log("listening")[-1]
    async with (
        aiohttp.ClientSession(f"http://{listening['host']}:{listening['port']}") as client,
        client.get(path) as response,
    ):
        return response.status, await response.text()


async def metrics(node: GpuNode) -> dict[str, float]:
    _, text = await get(node, "/metrics")
    return {name.removeprefix(PREFIX): value for name, value in parsed(text).items()}


async def test_ready_means_known_to_the_kubelet_and_to_the_scheduler(installed: ControlPlane) -> None:
    async with GpuNode(installed, start=False) as node:
        node.registers_driver = False
        node.agent = node.process()
        await node.agent.start()
        assert await get(node, "/healthz") == (200, "ok\n")
        assert await get(node, "/readyz") == (503, "the kubelet has not registered the driver\n")
        assert (await metrics(node))["kubelet_registered"] == 0
        await notify(node.registration, registered=True)

        async def ready() -> None:
            assert await get(node, "/readyz") == (200, "ok\n")

        await eventually(ready)
        assert len(await node.devices()) == 2
        assert (await metrics(node))["kubelet_registered"] == 1
        await notify(node.registration, registered=False)
        assert (await get(node, "/readyz"))[0] == 503


async def test_all_families_are_there_and_no_others(gpu_node: GpuNode) -> None:
    _, text = await get(gpu_node, "/metrics")
    families = list(text_string_to_metric_families(text))
    # The parser takes a counter's suffix off.
    assert {(one.name, one.type, one.documentation) for one in families} == {
        (metric.name.removesuffix("_total"), metric.kind, metric.meaning) for metric in catalogue.ALL
    }
    labels = {metric.name.removesuffix("_total"): {*metric.labels} for metric in catalogue.ALL}
    for family in families:
        assert all(sample.labels.keys() - {"le"} == labels[family.name] for sample in family.samples)


async def test_what_happens_is_counted_and_what_is_logged_names_the_claim(gpu_node: GpuNode) -> None:
    node = gpu_node
    await node.decide(TIME_SLICING, EXCLUSIVE)
    await node.offers("gpu-0-timeslicing", "gpu-1")
    good, other = await node.claim(node.shared()), await node.claim(node.whole(1))
    refused = await node.claim(node.shared(1))
    for claim, users in ((good, "learners"), (refused, "trainers")):
        # Of pods that are not there, Kubernetes would take the claim away.
        reserved = [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": users, "uid": f"uid-{users}"}]
        await node.admin.merge(f"{claim.path}/status", {"status": {"reservedFor": reserved}})
    answers = await node.kubelet.prepare(good, other, refused)
    assert [bool(answers[claim.uid].error) for claim in (good, other, refused)] == [False, False, True]

    found = await metrics(node)
    assert found["prepares_total"] == 3
    assert {name: value for name, value in found.items() if "prepare_failures" in name and value} == {
        'prepare_failures_total{reason="refused"}': 1
    }
    assert found['prepare_duration_seconds_count{sharing="TimeSlicing"}'] == 1
    assert found['prepare_duration_seconds_count{sharing="Exclusive"}'] == 1
    assert found["prepared_claims"] == 2
    clients = {sharing: found[f'clients{{sharing="{sharing}"}}'] for sharing in ("Exclusive", "TimeSlicing", "MPS")}
    assert clients == {"Exclusive": 1, "TimeSlicing": 1, "MPS": 0}
    assert found["gpus"] == 2
    assert found['hardware_operation_duration_seconds_count{operation="set_time_slice"}'] == 1
    assert found['resource_slice_writes_total{verb="create"}'] >= len(await node.slices())
    assert found['rounds_total{result="succeeded"}'] >= 1
    assert [found[name] for name in ("driver_hung", "gpus_with_failed_settings", "mps_daemons")] == [0, 0, 0]

    [entry] = node.log("claim not prepared")
    assert (entry["claim"], entry["claim_uid"]) == (f"default/{refused.name}", refused.uid)
    assert entry["pods"] == ["podgroups/trainers"]

    # What is said deep inside names it, too.
    smi = node.sim.nvidia_smi
    aside = smi.rename(smi.with_name("aside"))
    assert await node.kubelet.unprepare(good) == {good.uid: ""}
    assert (await metrics(node))["gpus_with_failed_settings"] == 1
    aside.rename(smi)
    [user] = json.loads(node.kubeconfig.read_bytes())["users"]
    assert user["user"]["token"] not in node.agent.log.read_text()
    about = [entry for entry in node.log("GPU settings not applied") if "claim" in entry]
    assert {(entry["claim"], entry["claim_uid"]) for entry in about} == {(f"default/{good.name}", good.uid)}
    assert [entry["pods"] for entry in about] == [["podgroups/learners"]] * len(about)


async def test_the_first_agent_of_a_node_counts_the_gpus_that_it_finds(gpu_node: GpuNode) -> None:
    async def both_are_counted() -> None:
        assert [entry["gpus"] for entry in gpu_node.log("GPUs found")] == [2]

    await eventually(both_are_counted)


async def test_the_next_agent_says_what_it_found(gpu_node: GpuNode) -> None:
    node = gpu_node
    await node.decide(TIME_SLICING, EXCLUSIVE)
    await node.offers("gpu-0-timeslicing", "gpu-1")
    claims = [await node.claim(node.shared()), await node.claim(node.shared())]
    await node.kubelet.prepare(*claims)

    async def restart(succeeded: int = 1) -> dict[str, float]:
        await node.agent.kill()
        await node.agent.start()

        async def recovered() -> None:
            assert node.log("GPUs found")
            assert (await metrics(node))['recovered_gpus{result="succeeded"}'] == succeeded

        await eventually(recovered)
        return await metrics(node)

    before = await metrics(node)
    assert recovery(before) == {"succeeded": 0, "failed": 0, "quarantined": 0}
    assert recovery(await restart()) == {"succeeded": 1, "failed": 0, "quarantined": 0}

    async def told() -> None:
        status = (await node.sharing())["status"]
        assert {claim["uid"] for claim in status["claims"]} == {claim.uid for claim in claims}

    await eventually(told)
    (node.state / f"claims/{claims[0].uid}.json").write_text("{")
    assert recovery(await restart()) == {"succeeded": 1, "failed": 0, "quarantined": 1}

    async def known_again() -> None:
        assert (await metrics(node))["prepared_claims"] == 2

    await eventually(known_again)
    await node.kubelet.unprepare(*claims)


def recovery(found: dict[str, Any]) -> dict[str, float]:
    recovered = {result: found[f'recovered_gpus{{result="{result}"}}'] for result in ("succeeded", "failed")}
    return recovered | {"quarantined": found["quarantined_state_files"]}
