"""Names, labels and what else metadata may say, in the words of kube-apiserver."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from gpusharing.demo.apiserver.errors import Cause, as_go, invalid_value, required
from gpusharing.demo.apiserver.kinds import Kind

_LABEL: Final = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_PART: Final = re.compile("([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_NOT_SUBDOMAIN: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_NOT_LABEL: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_NOT_NAME_PART: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_NOT_LABEL_VALUE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_TOO_LONG: Final = "must be no more than {} bytes"


def problems(kind: Kind, metadata: Mapping[str, Any], before: Mapping[str, Any] | None) -> Iterator[Cause]:
    name = metadata.get("name", "")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    elif before is None and (wrong := _name_problem(kind, name)):
        yield invalid_value("metadata.name", as_go(name), wrong)
    yield from _wrong("metadata.labels", metadata.get("labels") or (), _key_problem)
    yield from _wrong("metadata.labels", (metadata.get("labels") or {}).values(), _value_problem)
    yield from _wrong("metadata.annotations", metadata.get("annotations") or (), lambda key: _key_problem(key.lower()))
    yield from _wrong("metadata.finalizers", metadata.get("finalizers") or (), _key_problem)
    for number, owner in enumerate(metadata.get("ownerReferences") or ()):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                yield required(f"metadata.ownerReferences[{number}].{field}", "must not be empty")
    if before is not None and "deletionTimestamp" in before:
        known = before.get("finalizers") or ()
        if added := sorted(set(metadata.get("finalizers") or ()) - set(known)):
            shown = ", ".join(as_go(one) for one in added)
            why = "no new finalizers can be added if the object is being deleted, found new finalizers"
            yield Cause("metadata.finalizers", "FieldValueForbidden", f"Forbidden: {why} []string{{{shown}}}")


def _wrong(field: str, texts: Iterable[str], problem: Callable[[str], str | None]) -> Iterator[Cause]:
    for text in texts:
        if why := problem(text):
            yield invalid_value(field, as_go(text), why)


def _name_problem(kind: Kind, name: str) -> str | None:
    if kind.group == "rbac.authorization.k8s.io":
        return "may not contain '/'" if "/" in name else None
    is_label = kind.resource in {"namespaces", "services"}
    longest = 63 if is_label else 253
    if len(name) > longest:
        return _TOO_LONG.format(longest)
    if is_label:
        return None if _LABEL.fullmatch(name) else _NOT_LABEL
    return None if _SUBDOMAIN.fullmatch(name) else _NOT_SUBDOMAIN


def _key_problem(key: str) -> str | None:
    prefix, slash, name = key.rpartition("/")
    if slash and not _SUBDOMAIN.fullmatch(prefix):
        return f"prefix part {_NOT_SUBDOMAIN}"
    if len(name) > 63:
        return f"name part {_TOO_LONG.format(63)}"
    return None if _NAME_PART.fullmatch(name) else _NOT_NAME_PART


def _value_problem(value: str) -> str | None:
    if len(value) > 63:
        return _TOO_LONG.format(63)
    return None if not value or _NAME_PART.fullmatch(value) else _NOT_LABEL_VALUE
