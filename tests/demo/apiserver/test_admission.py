"""Admission policies: which writes they are asked about, and our guards, as the operator writes them."""

from typing import Any

import pytest

from gpusharing.demo.apiserver.admission import Review, User, admit
from gpusharing.demo.apiserver.errors import StatusError
from gpusharing.demo.apiserver.kinds import Kinds

KINDS = {kind.resource: kind for kind in Kinds()}
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}


def review(**changed: Any) -> Review:
    value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"app": "x"}}}
    usual: dict[str, Any] = {
        "operation": "CREATE", "kind": KINDS["configmaps"], "subresource": "", "name": "a", "namespace": "n",
        "value": value, "before": None, "namespace_object": {"metadata": {"name": "n", "labels": {"team": "a"}}},
        "user": User("me", ("us",), {"node": ("n1",)}), "dry_run": False,
    }  # fmt: skip
    return Review(**usual | changed)


def said(about: Review, *validations: Any, actions: tuple[str, ...] = ("Deny",), bound: Any = None, **spec: Any) -> str:
    """What a policy says of a write: a refusal, warnings, or nothing."""
    spec = {"matchConstraints": {"resourceRules": [RULE]}, "validations": list(validations)} | spec
    policy = {"metadata": {"name": "p"}, "spec": spec}
    binding = {
        "metadata": {"name": "b"},
        "spec": {"policyName": "p", "validationActions": list(actions), **(bound or {})},
    }
    try:
        return "; ".join(admit(about, {"p": policy}, [binding]))
    except StatusError as error:
        return f"{error.code} {error.message.partition('denied request: ')[2]}"


NEVER = {"expression": "false", "message": "no"}


@pytest.mark.parametrize(
    ("rule", "about", "expected"),
    [
        (RULE, review(), "422 no"),
        (RULE | {"operations": ["UPDATE"]}, review(), ""),
        (RULE | {"operations": ["*"]}, review(operation="DELETE"), "422 no"),
        (RULE | {"resources": ["*"]}, review(), "422 no"),
        (RULE | {"resources": ["*"]}, review(subresource="status"), ""),
        (RULE | {"resources": ["*/*"]}, review(subresource="status"), "422 no"),
        (RULE | {"resources": ["configmaps/status"]}, review(subresource="status"), "422 no"),
        (RULE | {"resources": ["configmaps/status"]}, review(), ""),
        (RULE | {"apiGroups": ["apps"]}, review(), ""),
        (RULE | {"apiVersions": ["v2"]}, review(), ""),
        (RULE | {"scope": "Cluster"}, review(), ""),
        (RULE | {"resourceNames": ["b"]}, review(), ""),
    ],
)
def test_which_writes_a_rule_is_about(rule: Any, about: Review, expected: str) -> None:
    assert said(about, NEVER, matchConstraints={"resourceRules": [rule]}) == expected


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, "422 no"),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, ""),
        ({"objectSelector": {"matchLabels": {"app": "x"}}}, "422 no"),
        ({"objectSelector": {"matchLabels": {"app": "y"}}}, ""),
        ({"excludeResourceRules": [RULE]}, ""),
    ],
)
def test_selectors_of_policies_and_bindings(more: Any, expected: str) -> None:
    assert said(review(), NEVER, matchConstraints={"resourceRules": [RULE], **more}) == expected
    assert said(review(), NEVER, bound={"matchResources": more}) == expected


@pytest.mark.parametrize(
    ("validation", "expected"),
    [
        ({"expression": "object.metadata.name == 'a'"}, ""),
        ({"expression": "object.metadata.name == 'b'"}, "422 failed expression: object.metadata.name == 'b'"),
        ({"expression": "false", "reason": "Forbidden", "message": "no"}, "403 no"),
        ({"expression": "false", "messageExpression": "'not ' + request.name"}, "422 not a"),
        ({"expression": "false", "messageExpression": "object.none", "message": "else"}, "422 else"),
        ({"expression": "request.userInfo.username == 'me' && 'us' in request.userInfo.groups"}, ""),
        ({"expression": "request.userInfo.extra['node'][0] == 'n1'"}, ""),
        ({"expression": "namespaceObject.metadata.labels['team'] == 'a' && oldObject == null"}, ""),
        ({"expression": "request.operation == 'CREATE' && !request.dryRun && request.namespace == 'n'"}, ""),
        ({"expression": "object.none"}, "422 expression 'object.none' resulted in error: no such key: none"),
    ],
)
def test_validations(validation: Any, expected: str) -> None:
    assert said(review(), validation) == expected


def test_conditions_variables_and_what_fails() -> None:
    about = review()
    assert said(about, NEVER, matchConditions=[{"name": "c", "expression": "object.metadata.name == 'b'"}]) == ""
    variables = [{"name": "n", "expression": "object.metadata.name"}, {"name": "m", "expression": "variables.n + 'b'"}]
    assert said(about, {"expression": "variables.m == 'ab'"}, variables=variables) == ""
    # Who does not read a variable does not fail with it.
    broken = [{"name": "n", "expression": "object.none"}]
    assert said(about, {"expression": "true"}, variables=broken) == ""
    assert said(about, {"expression": "variables.n == 1"}, variables=broken).startswith("422 expression")
    assert said(about, {"expression": "variables.n == 1"}, variables=broken, failurePolicy="Ignore") == ""
    assert said(about, NEVER, actions=("Warn",)).endswith("with binding 'b': no")
    assert said(about, NEVER, actions=("Audit",)) == ""
