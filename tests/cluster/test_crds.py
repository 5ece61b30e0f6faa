"""What API servers make of our custom resources: the real one, and the embedded one."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from gpusharing.api.crd import DEFINITIONS
from gpusharing.kube import client_credentials
from gpusharing.kube.transport import open_session
from harness.api_servers import CRDS, EITHER, api_server, apply_manifests
from harness.controlplane import ControlPlane
from harness.workloads import policy

pytestmark = pytest.mark.asyncio(loop_scope="module")

SHARES = {"timeSlicing": {"maxClients": 4}}
MPS = {"maxClients": 8, "memory": {"default": "8Gi"}, "threads": {"default": 25}}


def shares(**more: Any) -> dict[str, Any]:
    return {"offers": {"timeSlicing": {"maxClients": 4, **more}}}


def mps(**more: Any) -> dict[str, Any]:
    return {"offers": {"mps": MPS | more}}


def mig(**offer: Any) -> dict[str, Any]:
    return {"offers": {"mig": offer}}


def tenants(**more: Any) -> dict[str, Any]:
    return {"offers": SHARES, "tenants": {"namespaces": {"matchLabels": {"team": "search"}}, **more}}


ALL_OFFERS = {"exclusive": {}, "mps": MPS, "mig": {"profiles": ["1g.10gb"]}, **SHARES}
LAYOUT = {"1g.10gb": 4}
VARIANTS = (
    {"name": "whole", "mode": "Exclusive", "memory": "70Gi"},
    {"name": "two-shares", "mode": "TimeSlicing", "shares": 2, "memory": "16Gi"},
    {"name": "large", "mode": "MPS", "memory": "16384Mi", "threads": 50, "shares": 2},
    {"name": "1g", "mode": "MIG", "profile": "1g.10gb"},
)


def templates(*variants: dict[str, Any], offers: Any = None, allow: Any = None, **classes: Any) -> dict[str, Any]:
    tenants = {"namespaces": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}, "allow": allow or {}}
    listed = {"templateVariants": list(variants)} if variants else {}
    return {
        "offers": offers or ALL_OFFERS,
        "tenants": tenants,
        "classes": {"templates": True, **listed, **classes},
    }


def variant(**fields: Any) -> dict[str, Any]:
    return templates({"name": "v", **fields})


class RefusedError(Exception):
    """In the server's words."""


@dataclass(frozen=True)
class Server:
    session: aiohttp.ClientSession
    url: str

    async def get(self, path: str) -> Any:
        async with self.session.get(self.url + path) as response:
            return await response.json()

    async def create(self, body: dict[str, Any], *, validation: str = "Strict") -> Any:
        """Tries it, as kubectl does."""
        url = f"{self.url}/apis/gpusharing.dev/v1alpha1/sharingpolicies?dryRun=All&fieldValidation={validation}"
        async with self.session.post(url, json=body) as response:
            answer = await response.json()
        if response.status != 201:
            raise RefusedError(answer["message"])
        return answer


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=EITHER)
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    async with api_server(request.param) as control_plane:
        await apply_manifests(control_plane, CRDS)
        credentials = await client_credentials.load(control_plane.kubeconfig)
        async with open_session(credentials) as session:
            yield Server(session, control_plane.url)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.kind)
async def test_schemas_are_structural(server: Server, definition: Any) -> None:
    crd = await server.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition.name}")
    conditions = {item["type"]: item["status"] for item in crd["status"]["conditions"]}
    assert conditions.get("NonStructuralSchema", "False") == "False"
    assert (conditions["NamesAccepted"], conditions["Established"]) == ("True", "True")


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"offers": SHARES}, id="shares"),
        pytest.param({"offers": {"exclusive": {}}}, id="whole"),
        pytest.param({"offers": SHARES | {"exclusive": {}}, "gpus": {"maxPerNode": 3}}, id="both, a number"),
        pytest.param({"offers": SHARES, "gpus": {"maxPerNode": "100%"}}, id="a percentage"),
        pytest.param(
            {"offers": SHARES, "nodes": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}},
            id="a label in a set",
        ),
        pytest.param(
            {"offers": SHARES, "nodes": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}, id="a label"
        ),
        pytest.param({"offers": SHARES, "gpus": {"selectors": [{"cel": {"expression": "x"}}]}}, id="a selector"),
        pytest.param(shares(memory={"default": "25%"}), id="memory in percent"),
        pytest.param(shares(memory={"default": "25%", "min": "20%"}), id="both in percent"),
        pytest.param(shares(memory={"default": "1Gi", "min": "1024Mi", "enforcement": "None"}), id="equal amounts"),
        pytest.param(shares(memory={"default": "25%", "min": "30Gi"}), id="what depends on the GPU"),
        pytest.param(shares(transparent=True), id="transparent shares"),
        pytest.param(
            {"offers": {"exclusive": {}, "timeSlicing": {"maxClients": 2, "transparent": False}}}, id="not so"
        ),
        pytest.param(mps(), id="MPS"),
        pytest.param(
            mps(memory={"default": "8Gi", "min": "1Gi", "max": "20Gi"}, threads={"default": 25, "min": 5}),
            id="MPS with limits",
        ),
        pytest.param(mig(profiles=["1g.10gb", "1g.10gb+me", "2g.48gb+me.all", "1g.24gb-me"]), id="MIG on demand"),
        pytest.param(mig(layout={"1g.10gb": 4, "3g.40gb": 1}), id="a MIG layout"),
        pytest.param(
            {"offers": {"exclusive": {}, "mps": MPS, "mig": {"profiles": ["1g.10gb"]}, **SHARES}}, id="everything"
        ),
        pytest.param(tenants(quota={"timeSlicing": 16, "mps": 0}), id="a quota for some namespaces"),
        pytest.param(
            tenants(allow={"gpuConfig": ["MPS"], "intervals": [], "maxThreads": 50, "maxMemory": "20Gi"}),
            id="what tenants may ask for",
        ),
        pytest.param(
            {"offers": SHARES, "classes": {"extendedResources": {"timeSlicing": "example.com/gpu-shared"}}},
            id="an extended resource",
        ),
        pytest.param({"offers": SHARES, "rollout": {"maxUnavailable": "10%", "mode": "Plan"}}, id="a rollout"),
        pytest.param(templates(), id="templates"),
        pytest.param(templates(*VARIANTS), id="templates of every kind"),
        pytest.param(
            templates(*VARIANTS, allow={"maxMemory": "16Gi", "maxThreads": 50, "maxShares": 2}),
            id="templates as large as tenants may ask for",
        ),
        pytest.param(
            templates({"name": "small", "mode": "MIG", "profile": "1g.10gb"}, offers={"mig": {"layout": LAYOUT}}),
            id="a template of a layout's profile",
        ),
    ],
)
async def test_what_can_be_right_is_admitted(server: Server, spec: dict[str, Any]) -> None:
    stored = await server.create(policy("good", **spec))
    assert stored["spec"]["priority"] == 0


async def test_defaults_are_filled_in_and_no_more(server: Server) -> None:
    stored = await server.create(policy("good", offers=SHARES))
    defaults = {"maxClients": 4, "interval": "Default", "transparent": False}
    assert stored["spec"] == {"priority": 0, "offers": {"timeSlicing": defaults}}


MAX_PER_NODE = 'must be a number of at least 1, or a percentage from "1%" to "100%"'
MEMORY = 'must be a whole number of Mi, Gi or Ti ("8Gi"), or a percentage of the GPU from "1%" to "100%"'
VALUES = "operators In and NotIn require values; Exists and DoesNotExist must not have values"


def selecting(**requirement: Any) -> dict[str, Any]:
    return {"offers": SHARES, "nodes": {"matchExpressions": [{"key": "a", **requirement}]}}


@pytest.mark.parametrize(
    ("spec", "field", "told"),
    [
        pytest.param({}, "spec.offers", "Required value", id="no offers"),
        pytest.param({"offers": {}}, "spec.offers", "must set exclusive, timeSlicing, mps or mig", id="no offer"),
        pytest.param(
            {"offers": {"timeSlicing": {"maxClients": 1}}},
            "spec.offers.timeSlicing.maxClients",
            "should be greater than or equal to 2",
            id="one client shares with nobody",
        ),
        pytest.param(
            {"offers": {"timeSlicing": {"maxClients": 1000}}},
            "spec.offers.timeSlicing.maxClients",
            "should be less than or equal to 256",
            id="too many clients",
        ),
        pytest.param(
            {"offers": {"timeSlicing": {}}}, "spec.offers.timeSlicing.maxClients", "Required value", id="how many"
        ),
        pytest.param(
            {"offers": {"timeSlicing": {"maxClients": 4, "interval": "medium"}}},
            "spec.offers.timeSlicing.interval",
            'supported values: "Default", "Short", "Medium", "Long"',
            id="an interval that is none",
        ),
        pytest.param(
            {"offers": SHARES, "priority": 5_000_000},
            "spec.priority",
            "should be less than or equal to 1000000",
            id="a priority out of range",
        ),
        *(
            pytest.param(
                {"offers": SHARES, "gpus": {"maxPerNode": value}},
                "spec.gpus.maxPerNode",
                MAX_PER_NODE,
                id=f"maxPerNode {value!r}",
            )
            for value in (0, -1, "0%", "101%", "half", "50", "")
        ),
        pytest.param(selecting(operator="In"), "spec.nodes.matchExpressions[0]", VALUES, id="in nothing"),
        pytest.param(
            selecting(operator="Exists", values=["b"]), "spec.nodes.matchExpressions[0]", VALUES, id="exists as"
        ),
        pytest.param(
            selecting(operator="Is", values=["b"]),
            "spec.nodes.matchExpressions[0].operator",
            'supported values: "In", "NotIn", "Exists", "DoesNotExist"',
            id="an operator that is none",
        ),
        pytest.param(
            {"offers": SHARES, "gpus": {"selectors": [{"cel": {}}]}},
            "spec.gpus.selectors[0].cel.expression",
            "Required value",
            id="a selector without an expression",
        ),
        pytest.param({"offers": SHARES | {"vgpu": {}}}, "spec.offers.vgpu", "unknown field", id="an unknown field"),
        pytest.param(
            {"offers": SHARES, "tenants": {"quota": {"mps": 1}}},
            "spec.tenants.quota",
            "tenants.quota requires tenants.namespaces",
            id="a quota for everybody",
        ),
        pytest.param(
            {"offers": SHARES, "tenants": {"namespaces": {"matchExpressions": []}, "quota": {"mps": 1}}},
            "spec.tenants.quota",
            "tenants.quota requires tenants.namespaces",
            id="a quota for every namespace",
        ),
        pytest.param(
            tenants(quota={"mps": 1}) | {"classes": {"create": False}},
            "spec.tenants.quota",
            "tenants.quota requires classes.create: true",
            id="a quota without classes",
        ),
        pytest.param(
            tenants(allow={"maxMemory": "25%"}),
            "spec.tenants.allow.maxMemory",
            'must be a whole number of Mi, Gi or Ti ("20Gi")',
            id="part of a GPU as most memory",
        ),
        *(
            pytest.param(
                {"offers": SHARES, "classes": {"extendedResources": {"mps": name}}},
                "spec.classes.extendedResources.mps",
                'must be a name with your own domain, such as "example.com/gpu-shared"; kubernetes.io is not allowed',
                id=f"extended resource {name!r}",
            )
            for name in ("gpu", "kubernetes.io/gpu", "a.kubernetes.io/gpu", "example.com/", "requests.a.b/c", "A.com/b")
        ),
        pytest.param(
            {"offers": SHARES, "rollout": {"maxUnavailable": 0}},
            "spec.rollout.maxUnavailable",
            MAX_PER_NODE,
            id="a rollout to no node",
        ),
        *(
            pytest.param(
                shares(memory={"default": amount}), "spec.offers.timeSlicing.memory.default", MEMORY, id=f"{amount!r}"
            )
            for amount in ("0%", "101%", "8", "8G", "1.5Gi", "0Gi", "-1Gi", "", "500m")
        ),
        pytest.param(
            shares(memory={"default": "1Gi", "min": "2Gi"}),
            "spec.offers.timeSlicing.memory.min",
            "min must be less than or equal to default",
            id="more at least than usually",
        ),
        pytest.param(
            shares(memory={"default": "9%", "min": "10%"}),
            "spec.offers.timeSlicing.memory.min",
            "min must be less than or equal to default",
            id="in percent as well",
        ),
        pytest.param(
            mps(memory={"default": "1Ti", "max": "1023Gi"}),
            "spec.offers.mps.memory.default",
            "default must be less than or equal to max",
            id="more usually than at most",
        ),
        pytest.param(
            mps(memory={"default": "50%", "min": "2Gi", "max": "1Gi"}),
            "spec.offers.mps.memory.min",
            "min must be less than or equal to max",
            id="more at least than at most",
        ),
        pytest.param(
            shares(memory={"default": "1Gi", "enforcement": "Hard"}),
            "spec.offers.timeSlicing.memory.enforcement",
            'supported values: "Required", "Preferred", "None"',
            id="an enforcement that is none",
        ),
        pytest.param(
            {"offers": {"exclusive": {}, "timeSlicing": {"maxClients": 2, "transparent": True}}},
            "spec.offers.timeSlicing.transparent",
            "exclusive and timeSlicing.transparent are mutually exclusive: remove one",
            id="transparent beside whole",
        ),
        pytest.param(
            mps(threads={"default": 5, "min": 10}),
            "spec.offers.mps.threads.min",
            "min must be less than or equal to default",
            id="threads in the wrong order",
        ),
        pytest.param(
            mps(threads={"default": 101}), "spec.offers.mps.threads.default", "less than or equal to 100", id="percent"
        ),
        pytest.param(mps(maxClients=61), "spec.offers.mps.maxClients", "less than or equal to 60", id="MPS clients"),
        pytest.param(
            {"offers": {"mps": {"maxClients": 4}}}, "spec.offers.mps.memory", "Required value", id="MPS without amounts"
        ),
        pytest.param(
            mig(), "spec.offers.mig", "must set exactly one of profiles and layout", id="MIG without profiles"
        ),
        pytest.param(
            mig(profiles=["1g.10gb"], layout={"1g.10gb": 1}),
            "spec.offers.mig",
            "must set exactly one of profiles and layout",
            id="MIG both ways",
        ),
        pytest.param(mig(profiles=[]), "spec.offers.mig.profiles", "at least 1 items", id="no profiles"),
        pytest.param(
            mig(profiles=["1g"]),
            "spec.offers.mig.profiles[0]",
            'must be a MIG profile such as "1g.10gb": status.gpus[].migProfiles of the NodeSharings lists',
            id="a profile that is none",
        ),
        pytest.param(
            mig(profiles=["1g.10gb", "1g.10gb"]), "spec.offers.mig.profiles[1]", "Duplicate value", id="a profile twice"
        ),
        pytest.param(mig(layout={}), "spec.offers.mig.layout", "at least 1 properties", id="an empty layout"),
        pytest.param(
            mig(layout={"1g": 1}),
            "spec.offers.mig.layout",
            "keys must be MIG profiles such as",
            id="a layout of nonsense",
        ),
        pytest.param(
            mig(layout={"1g.10gb": 0}),
            "spec.offers.mig.layout.1g.10gb",
            "greater than or equal to 1",
            id="a layout of nothing",
        ),
        pytest.param(
            {"offers": {"mig": {"layout": {"1g.10gb": 1}}, "exclusive": {}}},
            "spec.offers.mig.layout",
            "mig.layout cannot be combined with other offers",
            id="a layout beside whole",
        ),
        pytest.param(
            {"offers": SHARES, "classes": {"templates": True}},
            "spec.classes.templates",
            "classes.templates: true requires tenants.namespaces",
            id="templates for everybody",
        ),
        pytest.param(
            templates(create=False),
            "spec.classes.templates",
            "classes.templates: true requires classes.create: true",
            id="templates without classes",
        ),
        pytest.param(
            templates(*VARIANTS, templates=False),
            "spec.classes.templateVariants",
            "templateVariants requires templates: true",
            id="variants without templates",
        ),
        *(
            pytest.param(
                templates({"name": name, "mode": "MPS"}),
                "spec.classes.templateVariants[0].name",
                told,
                id=f"a variant called {name[:20]!r}",
            )
            for name, told in (
                ("mps", "none of exclusive, timeslicing, mps, mig"),
                ("Large", "lower case letters"),
                ("-a", "lower case letters"),
                ("a.b", "lower case letters"),
                ("", "at least 1"),
                ("a" * 33, "may not be more than 32"),
            )
        ),
        pytest.param(
            templates({"name": "v", "mode": "MPS"}, {"name": "v", "mode": "Exclusive"}),
            "spec.classes.templateVariants[1]",
            "Duplicate value",
            id="two variants of a name",
        ),
        pytest.param(
            templates(*({"name": f"v{number}", "mode": "MPS"} for number in range(17))),
            "spec.classes.templateVariants",
            "must have at most 16 items",
            id="too many variants",
        ),
        pytest.param(
            variant(mode="MPS") | {"offers": SHARES},
            "spec.classes.templateVariants",
            "mode must be one that the policy offers",
            id="a variant of a mode that is not offered",
        ),
        *(
            pytest.param(variant(**fields), f"spec.classes.templateVariants[0].{field}", told, id=told)
            for fields, field, told in (
                ({"mode": "MIG"}, "profile", "profile must be set with mode MIG, and only with it"),
                ({"mode": "MPS", "profile": "1g.10gb"}, "profile", "profile must be set with mode MIG, and only"),
                (
                    {"mode": "MIG", "profile": "1g.10gb", "memory": "1Gi"},
                    "memory",
                    "memory cannot be set with mode MIG",
                ),
                ({"mode": "TimeSlicing", "threads": 5}, "threads", "threads can be set with mode MPS only"),
                ({"mode": "Exclusive", "shares": 2}, "shares", "shares can be set with modes TimeSlicing and MPS"),
                ({"mode": "MPS", "memory": "50%"}, "memory", "must be a whole number of Mi, Gi or Ti"),
                ({"mode": "MPS", "memory": "9999999Ti"}, "memory", "may not be more than 8"),
                ({"mode": "MPS", "threads": 101}, "threads", "less than or equal to 100"),
                ({"mode": "Whole"}, "mode", 'supported values: "Exclusive"'),
            )
        ),
        pytest.param(
            variant(mode="MIG", profile="3g.40gb"),
            "spec.classes.templateVariants",
            "profile must be one of offers.mig",
            id="a profile that is not offered",
        ),
        pytest.param(
            variant(mode="MPS", shares=9),
            "spec.classes.templateVariants",
            "shares must be less than or equal to maxClients",
            id="more shares than there are",
        ),
        *(
            pytest.param(
                templates({"name": "v", "mode": "MPS", **amount}, allow=allow),
                "spec.classes.templateVariants",
                "memory, threads and shares must not exceed tenants.allow",
                id=f"more than tenants may ask for: {amount}",
            )
            for amount, allow in (
                ({"memory": "17Gi"}, {"maxMemory": "16Gi"}),
                ({"threads": 51}, {"maxThreads": 50}),
                ({"shares": 2}, {"maxShares": 1}),
            )
        ),
    ],
)
async def test_what_can_never_be_right_is_refused_by_name(
    server: Server, spec: dict[str, Any], field: str, told: str
) -> None:
    with pytest.raises(RefusedError) as refusal:
        await server.create(policy("bad", **spec))
    assert field in str(refusal.value)
    assert told in str(refusal.value)


async def test_a_name_that_no_class_could_carry_is_refused(server: Server) -> None:
    await server.create(policy("a" * 51, offers=SHARES))
    with pytest.raises(RefusedError, match=r"metadata\.name must have at most 51 characters"):
        await server.create(policy("a" * 52, offers=SHARES))


async def test_unknown_fields_are_pruned_where_nobody_validates_strictly(server: Server) -> None:
    stored = await server.create(policy("good", offers=SHARES, colour="red"), validation="Ignore")
    assert "colour" not in stored["spec"]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("sharingpolicy.spec.offers.timeSlicing.maxClients", "The number of shares of each GPU"),
        ("sharingpolicy.spec.offers.mps.memory.max", "The most GPU memory that a claim may ask for"),
        ("gns.spec.gpus.closeApproved", "the agent may withdraw now"),
        ("gsp.spec.priority", "the highest priority wins"),
        ("gns.spec.gpus.losers.reason", "Why the policy did not win the GPU"),
        ("gns.status.gpus.timeSlice", "The time slice of this GPU"),
    ],
)
@pytest.mark.cluster
@pytest.mark.asyncio(loop_scope="session")
async def test_kubectl_explains(with_definitions: ControlPlane, path: str, told: str) -> None:
    assert told in " ".join((await with_definitions.kubectl("explain", path)).split())


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def with_definitions(control_plane: ControlPlane) -> ControlPlane:
    await apply_manifests(control_plane, CRDS)
    return control_plane
