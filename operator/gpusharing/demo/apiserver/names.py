"""Which names objects may have, in the words of kube-apiserver."""

import re
from typing import Final

from gpusharing.demo.apiserver.kinds import Kind

_LABEL: Final = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
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


def name_problem(kind: Kind, name: str) -> str | None:
    if kind.group == "rbac.authorization.k8s.io":
        return None if "/" not in name and "%" not in name else "may not contain '/'"
    is_label = kind.resource in {"namespaces", "services"}
    longest = 63 if is_label else 253
    if len(name) > longest:
        return f"must be no more than {longest} bytes"
    if is_label:
        return None if _LABEL.fullmatch(name) else _NOT_LABEL
    return None if _SUBDOMAIN.fullmatch(name) else _NOT_SUBDOMAIN
