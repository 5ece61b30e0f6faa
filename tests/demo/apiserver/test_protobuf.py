"""What kubectl 1.37 sends as protobuf, byte by byte, and what nobody can read."""

from contextlib import suppress
from typing import Any

import pytest

from gpusharing.demo.apiserver.errors import StatusError
from gpusharing.demo.apiserver.protobuf import decoded

CONFIG_MAP = (
    "6b3873000a0f0a0276311209436f6e6669674d617012220a110a016112001a0022002a0032003800420012050a0165120012060a016b1201761a"
    "002200"
)

ROLE = (
    "6b3873000a240a1c726261632e617574686f72697a6174696f6e2e6b38732e696f2f76311204526f6c65123c0a110a017212001a0022"
    "002a00320038004200120d0a0367657412001a04706f647312180a036765741204617070731a0b6465706c6f796d656e74731a002200"
)
QUOTA = (
    "6b3873000a130a027631120d5265736f7572636551756f746112330a110a017112001a0022002a00320038004200121c0a0d0a036370"
    "7512060a043530306d0a0b0a04706f647312030a01311a001a002200"
)
BUDGET = (
    "6b3873000a200a09706f6c6963792f76311213506f6444697372757074696f6e42756467657412360a110a017012001a0022002a0032"
    "003800420012150a09080110001a0335302512080a060a01611201621a0a080018002000280030001a002200"
)
DEPLOYMENT = (
    "6b3873000a150a07617070732f7631120a4465706c6f796d656e7412a7010a1b0a016412001a0022002a003200380042005a080a0361"
    "7070120164127a0802120a0a080a036170701201641a620a1a0a0012001a0022002a003200380042005a080a03617070120164124412"
    "260a01781201782a00320a0a001000185022002a0042006a007200800100880100900100a201001a00320042004a0052005800600068"
    "008201008a01009a0100c2010022020a00280038001a0c0800100018002000280038001a002200"
)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        # kubectl create configmap a --from-literal=k=v --from-literal=e=
        (
            CONFIG_MAP,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"e": "", "k": "v"}},
        ),
        # kubectl create role r --verb=get --resource=pods: an empty text in a list counts.
        (
            ROLE,
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {"name": "r"},
                "rules": [
                    {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
                    {"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments"]},
                ],
            },
        ),
        # kubectl create quota q --hard=pods=1,cpu=500m
        (
            QUOTA,
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "q"},
                "spec": {"hard": {"cpu": "500m", "pods": "1"}},
            },
        ),
        # kubectl create pdb p --selector=a=b --min-available=50%
        (
            BUDGET,
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "p"},
                "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}},
            },
        ),
        # kubectl create deployment d --image=x --replicas=2 --port=80
        (
            DEPLOYMENT,
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "d", "labels": {"app": "d"}},
                "spec": {
                    "replicas": 2,
                    "selector": {"matchLabels": {"app": "d"}},
                    "template": {
                        "metadata": {"labels": {"app": "d"}},
                        "spec": {"containers": [{"name": "x", "image": "x", "ports": [{"containerPort": 80}]}]},
                    },
                },
            },
        ),
    ],
)
def test_what_kubectl_sends(sent: str, expected: Any) -> None:
    assert decoded(bytes.fromhex(sent)) == expected


@pytest.mark.parametrize("end", range(0, len(CONFIG_MAP) // 2, 3))
def test_what_ends_too_early_is_refused_or_less(end: int) -> None:
    """A part of a message may be a message."""
    with suppress(StatusError):
        assert decoded(bytes.fromhex(CONFIG_MAP)[:end])["kind"] == "ConfigMap"


@pytest.mark.parametrize(
    "sent", [b"", b"k8s\0", b"k8s\0\xff", b"{}", b"k8s\0\x0a\x02\x0a\x00", b"k8s\0" + b"\xff" * 99]
)
def test_what_is_no_object_is_refused(sent: bytes) -> None:
    with pytest.raises(StatusError):
        decoded(sent)
