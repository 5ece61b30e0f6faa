"""A snapshot that can be given away: no name of a tenant is left in it, and plans come out the same."""

import json
import re
from dataclasses import replace
from typing import Any, Final

from gpusharing.api.sharing.plan import Effect
from gpusharing.planning.changes import Plan
from gpusharing.planning.deciding import Edit
from gpusharing.planning.plan import plan
from gpusharing.snapshots import file
from gpusharing.snapshots.anonymous import anonymous
from gpusharing.snapshots.pseudonyms import Pseudonyms
from gpusharing.snapshots.world import World
from planning.fleets import Fleet, mps, policy, time_slicing

SALT: Final = b"salt"
SECRETS: Final = (
    "acme-research", "vision-team", "train-llama", "notebook-of-jane", "gpu-pool-berlin", "jane-doe", "batch-of-bob",
    "acme-first", "acme-second", "replica-of-jane", "secret-note",
    "llama-of-acme", "big-gpu-of-jane", "node-of-berlin", "team-of-acme", "former-claim", "former-namespace",
)  # fmt: skip


def world() -> World:
    tenants = {"namespaces": {"matchLabels": {"team": "vision-team"}}, "quota": {"mps": 3}}
    some = {
        "namespaces": {"matchExpressions": [{"key": "team", "operator": "In", "values": ["vision-team", "jane-doe"]}]}
    }
    fleet = Fleet(
        nodes=3,
        policies=[
            policy("acme-first", offers=mps(), tenants=tenants, nodes={"matchLabels": {"pool": "gpu-pool-berlin"}}),
            policy("acme-second", priority=-1, offers=time_slicing(4), tenants=some),
        ],
        labels={"pool": "gpu-pool-berlin", "gpus": "8"},
        namespaces={"acme-research": {"team": "vision-team", "owner": "jane-doe", "pool": "gpu"}, "default": {}},
    )
    fleet.hold(
        "gpu-0-mps", name="train-llama", namespace="acme-research", asks_for="acme-first-mps", reserved_for="acme-first"
    )
    fleet.hold("gpu-1-mps", name="notebook-of-jane", namespace="acme-research", reserved_for="acme-first")
    fleet.wait("gpu.nvidia.com", name="batch-of-bob", namespace="acme-research")
    fleet.pods[0]["metadata"] |= {
        "annotations": {"note": "secret-note"},
        "labels": {"app": "train-llama"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "replica-of-jane", "apiVersion": "apps/v1", "uid": "1"}],
    }
    fleet.pods[0]["spec"]["containers"] = [{"name": "llama-of-acme", "image": "none"}]
    fleet.claims[0]["spec"]["devices"]["requests"][0]["name"] = "big-gpu-of-jane"
    fleet.claims[0]["status"]["allocation"]["devices"]["results"][0]["request"] = "big-gpu-of-jane"
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-of-berlin"]}]}]
    fleet.claims[0]["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": terms}
    fleet.pods[0]["spec"]["resourceClaims"] = [{"name": "gpu-0-mps", "resourceClaimName": "train-llama"}]
    opaque = {"driver": "example.com", "parameters": {"note": "secret-note"}}
    fleet.claims[0]["spec"]["devices"]["config"] = [{"opaque": opaque}]
    fleet.pods[0]["spec"]["tolerations"] = [{"key": "dedicated", "operator": "Equal", "value": "team-of-acme"}]
    made = fleet.world()
    first, *others = (_renamed(sharing) for sharing in made.node_sharings)
    first["status"]["claims"] = [{"uid": "gone", "claim": "former-namespace/former-claim"}]
    return replace(made, nodes=[_renamed(node) for node in made.nodes], node_sharings=[first, *others])


def hidden(found: World, salt: bytes = SALT) -> World:
    return anonymous(found, Pseudonyms.of(found, salt=salt, vocabulary={"waits", "for"}))


def _renamed(value: Any) -> Any:
    return json.loads(json.dumps(value))


def test_no_name_stays() -> None:
    text = file.dumps(world())
    # Otherwise this shows nothing.
    assert [secret for secret in SECRETS if secret not in text] == []
    found = file.dumps(hidden(world()))
    assert [secret for secret in SECRETS if secret in found] == []
    assert not re.search(r"\bnode-\d", re.sub(r"GPU-node-\d", "", found))


def test_what_is_kubernetes_own_stays() -> None:
    found = hidden(world())
    assert {one["metadata"]["name"] for one in found.guards} == {one["metadata"]["name"] for one in world().guards}
    known = {one["metadata"]["name"] for one in found.classes}
    assert {"gpu.nvidia.com", "mps.gpu.nvidia.com"} <= known
    assert {one["spec"]["driver"] for one in found.slices} == {"gpu.nvidia.com"}
    # It is compared as a number.
    assert {one["metadata"]["labels"]["gpus"] for one in found.nodes} == {"8"}
    assert "default" in {one["metadata"]["name"] for one in found.namespaces}


def test_the_same_word_is_the_same_everywhere() -> None:
    found = hidden(world())
    namespace = found.claims[0]["metadata"]["namespace"]
    assert namespace in {one["metadata"]["name"] for one in found.namespaces}
    first = min(one["metadata"]["name"] for one in found.policies)
    assert found.claims[0]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == f"{first}-mps"
    assert {one["spec"]["pool"]["name"].partition("/")[2] for one in found.slices} == {first}


def test_words_of_devices_stay() -> None:
    found = hidden(world())
    types = {
        device["attributes"]["type"]["string"] for one in found.slices for device in one["spec"].get("devices", ())
    }
    assert types == {
        device["attributes"]["type"]["string"] for one in world().slices for device in one["spec"].get("devices", ())
    }


def test_names_of_devices_stay() -> None:
    """Commands read them, and some call a claim so."""
    before, after = (
        [device["name"] for one in found.slices for device in one["spec"].get("devices", ())]
        for found in (world(), hidden(world()))
    )
    assert "gpu-0-mps" in before
    assert before == after


def test_words_depend_on_the_salt() -> None:
    one, other = (hidden(world(), salt) for salt in (b"1", b"2"))
    assert one.policies[0]["metadata"]["name"] != other.policies[0]["metadata"]["name"]


def test_the_order_of_names_stays() -> None:
    before, after = world(), hidden(world())
    names = [one["metadata"]["name"] for one in before.nodes]
    found = [one["metadata"]["name"] for one in after.nodes]
    assert sorted(range(3), key=names.__getitem__) == sorted(range(3), key=found.__getitem__)


def test_plans_come_out_the_same() -> None:
    before = plan(world(), Edit(prunes=True))
    after = plan(hidden(world()), Edit(prunes=True))
    assert shape(before) == shape(after)
    assert shape(before)[0][Effect.WAITS] == 2


def shape(found: Plan) -> tuple[Any, ...]:
    effects = [gpu.effect for node in found.nodes for gpu in node.gpus]
    return (
        {effect: effects.count(effect) for effect in set(effects)},
        [len(step.nodes) for step in found.steps],
        [one.verb for one in found.objects],
        [one.count for one in found.starting],
        [one.count for one in found.stranded],
        [one.code for one in found.findings],
    )
