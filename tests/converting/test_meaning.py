"""What pods got of NVIDIA's device plugin, they get of the devices that a node publishes under converted policies."""

from typing import Any

import pytest
import yaml

from gpusharing.api.sharing.gpu_status import MemoryWallSupport
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.converting.conversion import File, convert
from gpusharing.core.policies.policy import ExaminedPolicies, examine
from gpusharing.forecasting.boards import boards
from gpusharing.forecasting.forecast import Node, forecast
from gpusharing.sim.drivers import find_driver
from gpusharing.sim.models import parse_gpus

NO_WALLS = MemoryWallSupport(supported=False, reason="not needed")
PLUGIN = "nvidia.com/device-plugin.config"
MIG = "gpusharing.dev/mig-config"


def published(gpus: str, labels: dict[str, str], *texts: str) -> dict[str, Any]:
    """The devices of a node, by name."""
    files = convert([File(f"{number}.yaml", text) for number, text in enumerate(texts)]).files
    bodies = [body for file in files for body in yaml.safe_load_all(file.text) if body]
    policies = [
        SharingPolicy.model_validate(body | {"metadata": body["metadata"] | {"generation": 1}})
        for body in bodies
        if body["kind"] == "SharingPolicy"
    ]
    node = Node("n", labels, boards(parse_gpus(gpus), find_driver("580"), node="n"), NO_WALLS)
    examined = ExaminedPolicies([examine(policy, minor=37) for policy in policies])
    slices = forecast(node, examined).slices
    return {device["name"]: device for item in slices for device in item["spec"].get("devices", ())}


def config_map(mode: str, **replicas: int) -> str:
    data = {
        name: yaml.safe_dump(
            {"version": "v1", "sharing": {mode: {"resources": [{"name": "nvidia.com/gpu", "replicas": number}]}}}
        )
        for name, number in replicas.items()
    }
    return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": data})


@pytest.mark.parametrize("replicas", [2, 3, 8, 256])
def test_time_slices(replicas: int) -> None:
    devices = published("L4:2", {}, config_map("timeSlicing", any=replicas))
    assert devices.keys() == {"gpu-0-timeslicing", "gpu-1-timeslicing"}
    for device in devices.values():
        assert device["capacity"]["shares"]["value"] == str(replicas)
        # Class gpu.nvidia.com, which has nvidia.com/gpu, selects this type.
        assert device["attributes"]["type"] == {"string": "gpu"}


@pytest.mark.parametrize(("replicas", "mebibytes", "threads"), [(2, 11274, "50"), (10, 2254, "10")])
def test_mps(replicas: int, mebibytes: int, threads: str) -> None:
    (device,) = published("L4", {}, config_map("mps", any=replicas)).values()
    amounts = {name: capacity["requestPolicy"]["default"] for name, capacity in device["capacity"].items()}
    assert device["capacity"]["shares"]["value"] == str(replicas)
    assert amounts == {"shares": "1", "memory": f"{mebibytes}Mi", "threads": threads}


@pytest.mark.parametrize(
    ("labels", "shares"), [({PLUGIN: "few"}, "2"), ({PLUGIN: "many"}, "9"), ({}, "9"), ({PLUGIN: "unknown"}, "9")]
)
def test_each_node_has_the_config_of_its_label(labels: dict[str, str], shares: str) -> None:
    operator = {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "spec": {"devicePlugin": {"config": {"name": "shared", "default": "many"}}},
    }
    (device,) = published("L4", labels, yaml.safe_dump(operator), config_map("timeSlicing", few=2, many=9)).values()
    assert device["capacity"]["shares"]["value"] == shares


def test_pods_ask_for_instances_by_their_profile_if_there_is_one() -> None:
    def entry(**instances: int) -> list[dict[str, Any]]:
        layout = {profile.replace("_", "."): count for profile, count in instances.items()}
        return [{"devices": "all", "mig-enabled": True, "mig-devices": layout}]

    one, several = entry(**{"1g_5gb+me": 1}), entry(**{"1g_5gb": 5, "2g_10gb": 1})
    configs = {"a": one, "b": several, "c": one}
    mig = yaml.safe_dump({"version": "v1", "mig-configs": configs})
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"config.yaml": mig}}
    for strategy, expected in (("mixed", ["nvidia.com/mig-1g.5gb.me", None, None]), ("single", [None] * 3)):
        spec = {"mig": {"strategy": strategy}}
        operator = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"}, "spec": spec}
        (file,) = convert([File("all.yaml", yaml.safe_dump_all([config, operator]))]).files
        policies = [body for body in yaml.safe_load_all(file.text) if body["kind"] == "SharingPolicy"]
        names = [SharingPolicy.model_validate(body).spec.classes.extended_resources.mig for body in policies]
        assert names == expected


def test_mig_instances_of_each_model_next_to_time_slices() -> None:
    mig = {
        "version": "v1",
        "mig-configs": {
            "balanced": [
                {"device-filter": "0x233010DE", "devices": "all", "mig-enabled": True, "mig-devices": {"3g.40gb": 2}},
                {"device-filter": ["0x20B010DE"], "devices": [0], "mig-enabled": True, "mig-devices": {"1g.5gb": 7}},
            ]
        },
    }
    texts = (yaml.safe_dump(mig), config_map("timeSlicing", any=4))
    devices = published("H100-80GB,A100-40GB:2,L4", {MIG: "balanced"}, *texts)
    profiles = [device["attributes"].get("profile", {}).get("string", "") for device in devices.values()]
    assert sorted(profiles) == ["", "", *["1g.5gb"] * 7, *["3g.40gb"] * 2]
    # Instances come first: the others are shared.
    shared = {name for name, device in devices.items() if "shares" in device["capacity"]}
    assert "gpu-3-timeslicing" in shared
    assert len(shared) == 2
    assert published("H100-80GB", {}, *texts).keys() == {"gpu-0-timeslicing"}
