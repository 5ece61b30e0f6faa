"""Runs the pod of a probe, and removes it in every case."""

import secrets
import time
from collections.abc import Sequence
from typing import Final

from gpusharing.api.names import Sharing
from gpusharing.cli.exits import CommandError
from gpusharing.cli.reading.client import Client, ReadError
from gpusharing.cli.reading.questions import Question
from gpusharing.diagnosing.probing import Probed, claim_of, has_ended, pod_of
from gpusharing.explaining import pods
from gpusharing.explaining.explanation import Explanation
from gpusharing.snapshots.world import CLAIMS, PODS, Json

_LOOK_EVERY: Final = 0.5


def run_probe(
    client: Client, mode: Sharing, *, namespace: str, image: str, program: Sequence[str], timeout: float
) -> Probed:
    name = f"gpusharing-probe-{mode.lower()}-{secrets.token_hex(3)}"
    probed = Probed(mode, namespace, image, program[0])
    began = time.monotonic()
    try:
        try:
            pod: Json = client.send("POST", PODS.path(namespace=namespace), pod_of(name, image=image, program=program))
            client.send("POST", CLAIMS.path(namespace=namespace), claim_of(pod, mode))
            pod = _until_ended(client, pod, namespace, began + timeout)
            probed = probed._replace(pod=pod, seconds=time.monotonic() - began)
            if not has_ended(pod):
                explanation = _explain(client, pod)
                probed = probed._replace(headline=explanation.headline, explained=explanation.findings)
        except ReadError as error:
            probed = probed._replace(refused=error.message)
    finally:
        left = _remove(client, name, namespace, timeout)
    return probed._replace(left=left)


def _until_ended(client: Client, pod: Json, namespace: str, deadline: float) -> Json:
    path = PODS.path(namespace=namespace, name=pod["metadata"]["name"])
    while not has_ended(pod) and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY)
        pod = client.get_json(path)
    return pod


def _explain(client: Client, pod: Json) -> Explanation:
    question = Question(client)
    if pod["spec"].get("nodeName"):
        question.running_pod(pod)
    else:
        question.waiting_pod(pod)
    return pods.explain(pod, question.scene())


def _remove(client: Client, name: str, namespace: str, timeout: float) -> str:
    """Returns why it is still there; empty: it has gone. The claim goes with its pod, and the device with both."""
    deadline = time.monotonic() + timeout
    try:
        for resource in (PODS, CLAIMS):
            _delete(client, resource.path(namespace=namespace, name=name))
        while any(_exists(client, resource.path(namespace=namespace, name=name)) for resource in (PODS, CLAIMS)):
            if time.monotonic() > deadline:
                return f"it is still ending after {timeout:.0f} s"
            time.sleep(_LOOK_EVERY)
    except ReadError as error:
        return error.message
    except CommandError as error:
        return str(error)
    return ""


def _delete(client: Client, path: str) -> None:
    try:
        client.send("DELETE", path)
    except ReadError as error:
        if not error.is_absent:
            raise


def _exists(client: Client, path: str) -> bool:
    try:
        client.get(path)
    except ReadError as error:
        if error.is_absent:
            return False
        raise
    return True
