"""The component `namespaces`: people who may label namespaces, and do not decide on GPUs."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import pytest_asyncio

from cluster.tenants.bed import Answer, Bed, Person, a_bed, fresh
from gpusharing.kube import client_credentials
from gpusharing.kube.transport import open_session
from harness.eventually import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

COMPONENT: Final = Path(__file__).parents[3] / "manifests/components/namespaces/guards.yaml"
NAMESPACES: Final = "/api/v1/namespaces"
OTHER: Final = f"{NAMESPACES}/other"

LABELLER: Final = [
    {
        "apiGroups": [""],
        "resources": ["namespaces", "namespaces/status", "namespaces/finalize"],
        "verbs": ["get", "create", "update", "patch", "delete"],
    }
]
ADMITTER: Final = [
    *LABELLER,
    {
        "apiGroups": ["gpusharing.dev"],
        "resources": ["sharingpolicies"],
        "resourceNames": ["search"],
        "verbs": ["admit"],
    },
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["grant-admin-access"]},
]

TENANT: Final = {"team": "search"}
ADMIN_ACCESS: Final = {"resource.kubernetes.io/admin-access": "true"}
NEEDS_ADMIT: Final = "a tenant of SharingPolicy search: this requires the verb admit on sharingpolicies.gpusharing.dev"
NEEDS_GRANT: Final = "requires the verb grant-admin-access on resourceclaims.resource.k8s.io, cluster-wide"
TOO_MANY: Final = "a namespace may have at most 256 labels"


class People(NamedTuple):
    labeller: Person
    admitter: Person


def junk(count: int) -> dict[str, str]:
    return {f"a{number}": "" for number in range(count)}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed(toolchain: Path) -> AsyncIterator[Bed]:
    async with a_bed() as bed:
        await bed.control_plane.kubectl("apply", f"--filename={COMPONENT}")
        await bed.has_tenants_of(1, "namespaces")
        await bed.guards_in_force()
        yield bed


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def people(bed: Bed) -> AsyncIterator[People]:
    async with AsyncExitStack() as stack:
        found = {}
        for name, rules in (("labeller", LABELLER), ("admitter", ADMITTER)):
            role = {"kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
            api = {"apiVersion": "rbac.authorization.k8s.io/v1"}
            await bed.control_plane.kubectl("apply", "--filename=-", stdin=json.dumps(api | role))
            bound = (f"--clusterrole={name}", f"--user={name}")
            await bed.control_plane.kubectl("create", "clusterrolebinding", name, *bound)
            credentials = await client_credentials.load(await bed.control_plane.user_kubeconfig(name))
            session = await stack.enter_async_context(open_session(credentials))
            found[name] = Person(session, credentials.server)
        yield People(**found)


def with_labels(labels: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"labels": labels}}


async def writes(person: Person, how: str, labels: dict[str, str]) -> Answer:
    """On paper: a dry run."""
    match how:
        case "create":
            body = {"metadata": {"name": fresh("namespace"), "labels": labels}}
            return await person.ask("POST", NAMESPACES, body, dry=True)
        case "finalize":
            there = (await person.ask("GET", OTHER)).must()
            there["metadata"]["labels"] |= labels
            return await person.ask("PUT", f"{OTHER}/finalize", there, dry=True)
        case "status":
            return await person.ask("PATCH", f"{OTHER}/status", with_labels(labels), dry=True)
        case _:
            return await person.ask("PATCH", OTHER, with_labels(labels), dry=True)


@pytest.mark.parametrize("how", ["create", "update", "status", "finalize"])
@pytest.mark.parametrize("among", [0, 200, 1_000])
@pytest.mark.parametrize("labels", [TENANT, ADMIN_ACCESS], ids=["tenant", "admin access"])
async def test_labels_that_give_something_take_the_right_to_give_it(
    people: People, labels: dict[str, str], among: int, how: str
) -> None:
    answer = await writes(people.labeller, how, labels | junk(among))
    says = TOO_MANY if among > 256 else NEEDS_ADMIT if labels == TENANT else NEEDS_GRANT
    assert (answer.code, says in answer.says) == (403, True), answer
    answer = await writes(people.admitter, how, labels | junk(among))
    assert answer.code == (403 if among > 256 else 201 if how == "create" else 200), answer


@pytest.mark.parametrize("how", ["create", "update", "status", "finalize"])
@pytest.mark.parametrize("labels", [{}, {"team": "ads"}, junk(200)], ids=["none", "others", "many"])
async def test_other_labels_are_free(people: People, labels: dict[str, str], how: str) -> None:
    answer = await writes(people.labeller, how, labels)
    assert answer.code == (201 if how == "create" else 200), answer


async def test_a_tenant_stays_one_whoever_labels_it(bed: Bed, people: People) -> None:
    for labels in ({"a": "b"}, {"a": None}):
        (await people.labeller.ask("PATCH", f"{NAMESPACES}/search", {"metadata": {"labels": labels}})).must()


async def test_so_many_labels_that_looking_at_them_costs_too_much(people: People) -> None:
    answer = await writes(people.labeller, "create", TENANT | junk(60_000))
    assert (answer.code, TOO_MANY in answer.says) == (403, True), answer


async def test_a_namespace_that_had_too_many_before(bed: Bed, people: People) -> None:
    """It gets no other labels, may be put right, and goes."""
    name = fresh("namespace")
    path = f"{NAMESPACES}/{name}"
    await bed.control_plane.kubectl("delete", f"--filename={COMPONENT}")
    await bed.guards_in_force()
    (await people.labeller.ask("POST", NAMESPACES, {"metadata": {"name": name, "labels": junk(1_000)}})).must()
    await bed.control_plane.kubectl("apply", f"--filename={COMPONENT}")
    await bed.has_tenants_of(1, "namespaces")
    await bed.guards_in_force()
    for given in (TENANT, TENANT | {"a0": None}):
        answer = await people.labeller.ask("PATCH", path, {"metadata": {"labels": given}})
        assert (answer.code, TOO_MANY in answer.says) == (403, True), answer
    (await people.labeller.ask("PATCH", path, {"metadata": {"annotations": {"a": "b"}}})).must()
    (await people.labeller.ask("PATCH", path, {"metadata": {"labels": dict.fromkeys(junk(900))}})).must()
    (await people.labeller.ask("DELETE", path)).must()

    async def is_gone() -> None:
        assert (await people.labeller.ask("GET", path)).code == 404

    await eventually(is_gone)
