"""ValidatingAdmissionPolicies, evaluated by our CEL engine."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpusharing import cel
from gpusharing.cel.expressions import expression
from gpusharing.demo.apiserver.errors import Cause, StatusError, invalid_value, not_implemented
from gpusharing.demo.apiserver.kinds import Kind
from gpusharing.demo.apiserver.selectors import selects

POLICIES: Final = ("admissionregistration.k8s.io", "validatingadmissionpolicies")
BINDINGS: Final = ("admissionregistration.k8s.io", "validatingadmissionpolicybindings")

_VARIABLES: Final = ("object", "oldObject", "request", "namespaceObject", "variables")
_AUTHORIZER: Final = re.compile(r"\bauthorizer\b")
_REASONS: Final = {"Unauthorized": 401, "Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] | None = None

    def info(self) -> dict[str, Any]:
        extra = {name: list(values) for name, values in (self.extra or {}).items()}
        return {"username": self.name, "groups": list(self.groups), **({"extra": extra} if extra else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A write that policies are asked about."""

    operation: str
    kind: Kind
    subresource: str
    name: str
    namespace: str
    value: Mapping[str, Any] | None
    before: Mapping[str, Any] | None
    namespace_object: Mapping[str, Any] | None
    user: User
    dry_run: bool

    def request(self) -> dict[str, Any]:
        kind = {"group": self.kind.group, "version": self.kind.version, "kind": self.kind.kind}
        resource = {"group": self.kind.group, "version": self.kind.version, "resource": self.kind.plural}
        return {
            "kind": kind, "resource": resource, "subResource": self.subresource, "requestKind": kind,
            "requestResource": resource, "requestSubResource": self.subresource, "name": self.name,
            "namespace": self.namespace, "operation": self.operation, "userInfo": self.user.info(),
            "dryRun": self.dry_run,
        }  # fmt: skip


def admit(
    review: Review, policies: Mapping[str, Mapping[str, Any]], bindings: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Warnings. Raises StatusError for what is denied."""
    warnings: list[str] = []
    for binding in bindings:
        policy = policies.get(binding["spec"]["policyName"])
        if policy is None or not _matches(policy["spec"].get("matchConstraints") or {}, review):
            continue
        restricted = binding["spec"].get("matchResources") or {}
        if not _matches(restricted, review, always="resourceRules" not in restricted):
            continue
        for message, reason in _denials(policy["spec"], review):
            name, bound = policy["metadata"]["name"], binding["metadata"]["name"]
            actions = binding["spec"].get("validationActions") or ()
            if "Deny" in actions:
                raise _denied(
                    review,
                    f"ValidatingAdmissionPolicy '{name}' with binding '{bound}' denied request: {message}",
                    reason,
                )
            if "Warn" in actions:
                warnings.append(
                    f"Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{bound}': {message}"
                )
    return warnings


def _denied(review: Review, message: str, reason: str) -> StatusError:
    kind = review.kind
    details = {"name": review.name, **({"group": kind.group} if kind.group else {}), "kind": kind.plural}
    details["causes"] = [{"message": message}]  # type: ignore[assignment]
    return StatusError(
        _REASONS.get(reason, 422),
        f'{kind.resource} "{review.name}" is forbidden: {message}',
        reason=reason,
        details=details,
    )


def _matches(rules: Mapping[str, Any], review: Review, *, always: bool = False) -> bool:
    if any(_matches_rule(rule, review) for rule in rules.get("excludeResourceRules") or ()):
        return False
    if not always and not any(_matches_rule(rule, review) for rule in rules.get("resourceRules") or ()):
        return False
    about = _namespace(review)
    if about is not None and not selects(rules.get("namespaceSelector") or {}, about["metadata"].get("labels") or {}):
        return False
    if selector := rules.get("objectSelector"):
        values = [value for value in (review.value, review.before) if value is not None]
        return any(selects(selector, value["metadata"].get("labels") or {}) for value in values)
    return True


def _namespace(review: Review) -> Mapping[str, Any] | None:
    return (review.value or review.before) if review.kind.resource == "namespaces" else review.namespace_object


def _matches_rule(rule: Mapping[str, Any], review: Review) -> bool:
    kind = review.kind
    scope = rule.get("scope") or "*"
    names = rule.get("resourceNames") or ()
    return (
        _has(rule["apiGroups"], kind.group)
        and _has(rule["apiVersions"], kind.version)
        and _has(rule["operations"], review.operation)
        and any(_is_resource(one, kind.plural, review.subresource) for one in rule["resources"])
        and scope in {"*", "Namespaced" if kind.namespaced else "Cluster"}
        and (not names or review.name in names)
    )


def _has(wanted: list[str], value: str) -> bool:
    return "*" in wanted or value in wanted


def _is_resource(wanted: str, plural: str, subresource: str) -> bool:
    name, slash, below = wanted.partition("/")
    if not slash and subresource:
        return False
    return name in {"*", plural} and (below in {"*", subresource} if slash else True)


def _denials(spec: Mapping[str, Any], review: Review) -> Iterator[tuple[str, str]]:
    """Messages and reasons of all that do not hold."""
    variables: dict[str, Any] = {}
    about = review.namespace_object if review.kind.resource != "namespaces" else None
    given = {
        "object": review.value, "oldObject": review.before, "request": review.request(), "namespaceObject": about,
        "variables": variables,
    }  # fmt: skip
    fails = spec.get("failurePolicy", "Fail") == "Fail"
    try:
        if not all(_value(one["expression"], given) is True for one in spec.get("matchConditions") or ()):
            return
    except cel.EvaluationError as error:
        if fails:
            yield f"failed to evaluate match conditions: {error}", "Invalid"
        return
    for one in spec.get("variables") or ():
        try:
            variables[one["name"]] = _value(one["expression"], given)
        except cel.EvaluationError:
            # Variables are evaluated when they are used: who reads it fails.
            continue
    for one in spec.get("validations") or ():
        try:
            if _value(one["expression"], given) is not True:
                yield _message(one, given), one.get("reason") or "Invalid"
        except cel.EvaluationError as error:
            if fails:
                yield f"expression '{one['expression']}' resulted in error: {error}", "Invalid"


def _message(validation: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    if "messageExpression" in validation:
        try:
            return str(_value(validation["messageExpression"], given)).strip()
        except cel.EvaluationError:
            pass
    return str(validation.get("message") or f"failed expression: {validation['expression'].strip()}").strip()


def _value(text: str, given: Mapping[str, Any]) -> Any:
    return expression(text, _VARIABLES).evaluate(given)


def problems(policy: Mapping[str, Any]) -> Iterator[Cause]:
    """Of a policy that somebody writes: expressions that do not compile."""
    spec = policy.get("spec") or {}
    if spec.get("paramKind"):
        raise not_implemented("spec.paramKind of a ValidatingAdmissionPolicy")
    for field in ("matchConditions", "variables", "validations"):
        for number, one in enumerate(spec.get(field) or ()):
            for name in ("expression", "messageExpression"):
                if _AUTHORIZER.search(one.get(name) or ""):
                    raise not_implemented("authorizer in a ValidatingAdmissionPolicy")
                try:
                    if one.get(name):
                        expression(one[name], _VARIABLES)
                except cel.CompileError as error:
                    where = f"spec.{field}[{number}].{name}"
                    yield invalid_value(where, f'"{one[name]}"', f"compilation failed: ERROR: {error}")
