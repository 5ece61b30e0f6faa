"""Selectors of labels and fields, as they stand in queries."""

from typing import Any

import pytest

from gpusharing.demo.apiserver.errors import StatusError
from gpusharing.demo.apiserver.kinds import Kinds
from gpusharing.demo.apiserver.selectors import field_test, label_test, selects

KINDS = {kind.resource: kind for kind in Kinds()}
LABELS = {"app": "x", "tier": "one", "empty": "", "n": "7", "example.com/a": "b"}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("app=x", True), ("app==x", True), ("app!=x", False), ("none!=x", True), ("app", True), ("!app", False),
        ("!none", True), ("app in (x,y)", True), ("app in (y, z)", False), ("app notin (y)", True),
        ("none notin (y)", True), ("empty=", True), ("app=x,tier=one", True), ("app=x,tier=two", False),
        ("app in (x,y),!none", True), ("n>6", True), ("n<6", False), ("none>1", False), ("app>1", False),
        ("example.com/a=b", True), ("", True),
    ],
)  # fmt: skip
def test_labels(selector: str, expected: bool) -> None:
    assert label_test(selector)({"metadata": {"labels": LABELS}}) is expected


@pytest.mark.parametrize("selector", ["app in x", "a b", "=x", "app in (x", "a=b=c"])
def test_what_is_no_label_selector(selector: str) -> None:
    with pytest.raises(StatusError) as refused:
        label_test(selector)
    assert refused.value.code == 400


POD = {"metadata": {"name": "a", "namespace": "n"}, "spec": {"nodeName": "one"}, "status": {"phase": "Running"}}
EVENT = {"metadata": {"name": "e", "namespace": "n"}, "involvedObject": {"name": "a"}, "source": {"component": "c"}}


@pytest.mark.parametrize(
    ("resource", "selector", "value", "expected"),
    [
        ("pods", "metadata.name=a,metadata.namespace=n", POD, True),
        ("pods", "spec.nodeName!=", POD, True),
        ("pods", "spec.nodeName=two", POD, False),
        ("pods", "status.phase!=Succeeded,status.phase!=Failed", POD, True),
        ("pods", "status.podIP=", POD, True),
        ("nodes", "spec.unschedulable=false", {"metadata": {"name": "x"}}, True),
        ("events", "involvedObject.name=a", EVENT, True),
        ("events.events.k8s.io", "regarding.name=a", EVENT, True),
        ("events", "source=c", EVENT, True),
    ],
)
def test_fields(resource: str, selector: str, value: Any, expected: bool) -> None:
    assert field_test(selector, KINDS[resource])(value) is expected


@pytest.mark.parametrize("selector", ["data.k=v", "metadata.labels=a", "metadata.name"])
def test_fields_that_select_nothing(selector: str) -> None:
    with pytest.raises(StatusError) as refused:
        field_test(selector, KINDS["configmaps"])
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, True),
        ({"matchLabels": {"app": "x"}}, True),
        ({"matchLabels": {"app": "y"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}, False),
        ({"matchExpressions": [{"key": "none", "operator": "NotIn", "values": ["x"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_selectors_in_objects(selector: Any, expected: bool) -> None:
    assert selects(selector, LABELS) is expected
