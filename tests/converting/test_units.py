"""What NVIDIA's configs mean is what the policies say, and what refers to what is found across files."""

import textwrap
from typing import Any

import pytest
import yaml

from gpusharing import cel
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.converting.conversion import Conversion, File, convert
from gpusharing.converting.documents import split
from gpusharing.findings.converting import NOT_CARRIED_OVER, NOT_CONVERTED


def config_map(*configs: dict[str, Any], name: str = "shared") -> str:
    """With configs of the device plugin, by number."""
    data = {f"config-{number}": yaml.safe_dump({"version": "v1", **config}) for number, config in enumerate(configs)}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})


def sharing(mode: str = "timeSlicing", replicas: int = 8, **settings: bool) -> dict[str, Any]:
    return {"sharing": {mode: {**settings, "resources": [{"name": "nvidia.com/gpu", "replicas": replicas}]}}}


def policies(conversion: Conversion) -> list[SharingPolicy]:
    documents = [document for file in conversion.files for document in yaml.safe_load_all(file.text)]
    return [SharingPolicy.model_validate(one) for one in documents if one and one["kind"] == "SharingPolicy"]


def the_policy(config: dict[str, Any]) -> SharingPolicy:
    (found,) = policies(convert([File("config.yaml", config_map(config))]))
    return found


@pytest.mark.parametrize("replicas", [2, 8, 256])
def test_replicas_are_shares(replicas: int) -> None:
    offers = the_policy(sharing(replicas=replicas)).spec.offers
    assert offers.time_slicing
    assert offers.time_slicing.max_clients == replicas
    # As with the plugin, everybody uses all of the memory.
    assert offers.time_slicing.memory is None
    assert (offers.exclusive, offers.mps, offers.mig) == (None, None, None)


@pytest.mark.parametrize(("replicas", "percent"), [(2, 50), (3, 33), (10, 10), (60, 1)])
def test_clients_of_mps_get_equal_parts(replicas: int, percent: int) -> None:
    offer = the_policy(sharing("mps", replicas)).spec.offers.mps
    assert offer
    assert (offer.max_clients, offer.memory.default, offer.threads.default) == (replicas, f"{percent}%", percent)


@pytest.mark.parametrize(
    ("settings", "transparent", "resource"),
    [
        ({}, True, None),
        ({"renameByDefault": False}, True, None),
        ({"renameByDefault": True}, False, "nvidia.com/gpu.shared"),
    ],
)
def test_pods_ask_for_the_same_resource(settings: dict[str, bool], *, transparent: bool, resource: str | None) -> None:
    """nvidia.com/gpu is that of class gpu.nvidia.com, which selects transparent shares."""
    spec = the_policy(sharing("timeSlicing", 8, **settings)).spec
    assert spec.offers.time_slicing
    assert spec.offers.time_slicing.transparent is transparent
    assert spec.classes.extended_resources.time_slicing == resource


@pytest.mark.parametrize(
    ("mode", "settings", "most"),
    [
        ("timeSlicing", {}, None),
        ("timeSlicing", {"failRequestsGreaterThanOne": False}, None),
        ("timeSlicing", {"failRequestsGreaterThanOne": True}, 1),
        ("mps", {}, 1),
        ("mps", {"failRequestsGreaterThanOne": True}, 1),
        ("mps", {"failRequestsGreaterThanOne": False}, None),
    ],
)
def test_requests_of_more_than_one(mode: str, settings: dict[str, bool], most: int | None) -> None:
    tenants = the_policy(sharing(mode, 8, **settings)).spec.tenants
    assert tenants.allow.max_shares == most
    # Nobody is kept out.
    assert tenants.namespaces.match_labels == {}


def cluster_policy(default: str | None, name: str = "shared") -> str:
    config = {"name": name, **({"default": default} if default else {})}
    spec = {"devicePlugin": {"config": config}}
    return yaml.safe_dump({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {}, "spec": spec})


@pytest.mark.parametrize(
    ("operator", "labels", "selected"),
    [
        # Without the ClusterPolicy nobody says what nodes without a label have.
        (None, {}, set()),
        (None, {"nvidia.com/device-plugin.config": "config-1"}, {"shared-config-1"}),
        (cluster_policy("config-0"), {}, {"shared-config-0"}),
        (cluster_policy("config-0"), {"nvidia.com/device-plugin.config": "config-0"}, {"shared-config-0"}),
        (cluster_policy("config-0"), {"nvidia.com/device-plugin.config": "config-1"}, {"shared-config-1"}),
        (cluster_policy(None), {}, set()),
        (cluster_policy("config-0", name="other"), {}, set()),
    ],
)
def test_nodes_have_the_policy_of_their_config(
    operator: str | None, labels: dict[str, str], selected: set[str]
) -> None:
    files = [File("config.yaml", config_map(sharing(replicas=2), sharing(replicas=4)))]
    files += [File("operator.yaml", operator)] if operator else []
    found = policies(convert(files))
    assert {policy.metadata.name for policy in found if policy.spec.nodes.matches(labels)} == selected


@pytest.mark.parametrize("text", ["on", "No", "y", "null", "1e3", "0777", "1_000", "2026-11-20", "0x1f", "a"])
def test_texts_stay_texts_for_kubernetes(text: str) -> None:
    """It reads YAML 1.1, and so does this."""
    config = yaml.safe_dump({"version": "v1", **sharing()})
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {text: config, "other": config}}
    found = policies(convert([File("c.yaml", yaml.safe_dump(body, default_style='"'))]))
    assert {"nvidia.com/device-plugin.config": text} in [policy.spec.nodes.match_labels for policy in found]
    claim = {
        "apiVersion": "resource.k8s.io/v1alpha2",
        "kind": "ResourceClaim",
        "metadata": {"name": text},
        "spec": {"resourceClassName": text},
    }
    (file,) = convert([File("claim.yaml", yaml.safe_dump(claim, default_style='"'))]).files
    (request,) = yaml.safe_load(file.text)["spec"]["devices"]["requests"]
    assert request["exactly"]["deviceClassName"] == text


def test_a_driver_does_not_change_the_expression_that_names_it() -> None:
    body = {
        "apiVersion": "resource.k8s.io/v1alpha2",
        "kind": "ResourceClass",
        "metadata": {"name": "c"},
        "driverName": "x' || true || '",
    }
    file = File("class.yaml", yaml.safe_dump(body))
    assert convert([file]).files == (file,)


def test_keys_that_are_no_texts_are_not_lost() -> None:
    config = yaml.safe_dump({"version": "v1", **sharing()})
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {1: config, "other": config}}
    file = File("c.yaml", yaml.safe_dump(body))
    conversion = convert([file])
    assert conversion.files == (file,)
    assert "put it into quotes" in conversion.remarks[0].remedy


@pytest.mark.parametrize("name", ["a b", "$(reboot)", "x;y", "", "-a", "a" * 64, "`id`"])
def test_a_config_is_named_as_a_label_can_be(name: str) -> None:
    """It is in a command that people copy."""
    entry = {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": 7}}
    file = File("mig.yaml", yaml.safe_dump({"version": "v1", "mig-configs": {name: [entry]}}))
    conversion = convert([file])
    assert conversion.files == (file,)
    assert [remark.entry for remark in conversion.remarks] == [NOT_CONVERTED]


def test_a_config_that_is_alone_is_for_every_node_and_that_is_said() -> None:
    conversion = convert([File("config.yaml", config_map(sharing()))])
    assert policies(conversion)[0].spec.nodes.matches({})
    assert any("selects every node" in remark.fact for remark in conversion.remarks if remark.entry is NOT_CARRIED_OVER)


def test_the_device_plugin_is_disabled_only_if_its_config_map_was_converted() -> None:
    operator = File("operator.yaml", cluster_policy("config-0"))
    (alone,) = convert([operator]).files
    assert alone == operator
    together = convert([operator, File("config.yaml", config_map(sharing()))])
    assert yaml.safe_load(together.files[0].text)["spec"] == {"devicePlugin": {"enabled": False}}
    broken = convert([operator, File("config.yaml", config_map(sharing(replicas=0)))])
    assert broken.files[0] == operator


def mig(*entries: dict[str, Any]) -> str:
    return yaml.safe_dump({"version": "v1", "mig-configs": {"all": list(entries)}})


def test_a_product_that_is_not_known_never_widens_the_selection() -> None:
    entry = {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": 7}}
    known, unknown = "0x20B010DE", "0x999910DE"
    selectors = [
        [selector.cel.expression for selector in policy.spec.gpus.selectors]
        for ids in ([known], [known, unknown], [unknown], "0x20B0ABCD")
        for policy in policies(convert([File("mig.yaml", mig(entry | {"device-filter": ids}))]))
    ]
    assert selectors == [['device.attributes["gpu.nvidia.com"].productName == "NVIDIA A100-SXM4-40GB"']] * 2


def test_of_two_entries_for_the_same_gpus_the_later_one_wins() -> None:
    first = {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": 7}}
    second = {"devices": [0], "mig-enabled": True, "mig-devices": {"7g.40gb": 1}}
    one, other = policies(convert([File("mig.yaml", mig(first, second))]))
    assert one.spec.priority < other.spec.priority
    assert (one.spec.gpus.max_per_node, other.spec.gpus.max_per_node) == (None, 1)


def test_parameters_are_found_in_other_files_and_errors_name_theirs() -> None:
    def parameters(selector: str) -> File:
        text = f"""\
            apiVersion: gpu.resource.nvidia.com/v1alpha1
            kind: GpuClaimParameters
            metadata: {{name: p}}
            spec: {{selector: {selector}}}
            """
        return File("parameters.yaml", textwrap.dedent(text))

    claim = textwrap.dedent("""\
        apiVersion: resource.k8s.io/v1alpha2
        kind: ResourceClaim
        metadata: {name: c}
        spec:
          resourceClassName: gpu.nvidia.com
          parametersRef: {kind: GpuClaimParameters, name: p}
        """)
    converted = convert([File("claim.yaml", claim), parameters("{uuid: GPU-1}")])
    assert "GPU-1" in converted.files[0].text
    assert converted.files[1].text == ""
    refused = convert([File("claim.yaml", claim), parameters("{index: 0}")])
    assert [file.text for file in refused.files] == [claim, parameters("{index: 0}").text]
    assert [(remark.file, remark.line, remark.entry) for remark in refused.remarks] == [
        ("parameters.yaml", 4, NOT_CONVERTED)
    ]


@pytest.mark.parametrize(
    ("glob", "product", "matches"),
    [
        ("*T4*", "Tesla T4", True),
        ("tesla t4", "Tesla T4", True),
        ("T4", "Tesla T4", False),
        ("*.4", "Tesla T4", False),
        ("NVIDIA (H100)*", "nvidia (h100) nvl", True),
        ("it's*", "it's a GPU", True),
        ("a^b$c", "A^B$C", True),
        ("a\\b", "a\\b", True),
    ],
)
def test_globs_match_as_nvidias_first_driver_matched_them(glob: str, product: str, *, matches: bool) -> None:
    parameters = {
        "apiVersion": "gpu.resource.nvidia.com/v1alpha1",
        "kind": "GpuClaimParameters",
        "metadata": {"name": "p"},
        "spec": {"selector": {"productName": glob}},
    }
    claim = {
        "apiVersion": "resource.k8s.io/v1alpha2",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"resourceClassName": "gpu.nvidia.com", "parametersRef": {"kind": "GpuClaimParameters", "name": "p"}},
    }
    (file,) = convert([File("claim.yaml", yaml.safe_dump_all([parameters, claim]))]).files
    (converted,) = [one for one in yaml.safe_load_all(file.text) if one]
    (selector,) = converted["spec"]["devices"]["requests"][0]["exactly"]["selectors"]
    device = cel.Device(driver="gpu.nvidia.com", attributes={"productName": {"string": product}}, capacity={})
    assert cel.compile(selector["cel"]["expression"], 37).match(device) is matches


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a: 1\n", [1]),
        ("---\na: 1\n---\nb: 1\n", [2, 4]),
        ("# c\n---\n--- {a: 1}\n", [1, 3, 3]),
        ("a: |\n  ---\n", [1]),
    ],
)
def test_documents_know_their_lines(text: str, lines: list[int]) -> None:
    documents = split("a.yaml", text)
    assert "".join(document.text for document in documents) == text
    assert [document.line for document in documents] == lines
