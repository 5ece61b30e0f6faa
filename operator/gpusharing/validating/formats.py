"""Names and amounts as Kubernetes wants them: each function says what is wrong with a text, or None."""

import re
from typing import Any, Final

from gpusharing import cel
from gpusharing.cel.values import quantity
from gpusharing.validating.structure import shown

_LABEL: Final = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NAME_PART: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_IDENTIFIER: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

_LONGEST_LABEL: Final = 63
_LONGEST_SUBDOMAIN: Final = 253
_LONGEST_IDENTIFIER: Final = 32
_NATIVE: Final = "kubernetes.io/"
_OF_QUOTAS: Final = "requests."


def dns_label(value: str) -> str | None:
    if len(value) > _LONGEST_LABEL or not _LABEL.fullmatch(value):
        return _must(value, "lower-case letters, digits and '-', begin and end with a letter or digit", _LONGEST_LABEL)
    return None


def dns_subdomain(value: str) -> str | None:
    if len(value) > _LONGEST_SUBDOMAIN or not _SUBDOMAIN.fullmatch(value):
        allowed = "lower-case letters, digits, '-' and '.', begin and end with a letter or digit"
        return _must(value, allowed, _LONGEST_SUBDOMAIN)
    return None


def driver_name(value: str) -> str | None:
    if len(value) > _LONGEST_LABEL or not _SUBDOMAIN.fullmatch(value.lower()):
        return _must(value, "letters, digits, '-' and '.', begin and end with a letter or digit", _LONGEST_LABEL)
    return None


def label_key(value: str) -> str | None:
    prefix, slash, name = value.rpartition("/")
    if slash and dns_subdomain(prefix):
        return f"is {shown(value)}: the part before '/' must be a domain"
    return _name_part(value, name)


def label_value(value: str) -> str | None:
    return _name_part(value, value) if value else None


def fully_qualified_name(value: str) -> str | None:
    domain, slash, name = value.partition("/")
    if not slash:
        return f"is {shown(value)}: must be a domain and a name, such as gpu.nvidia.com/productName"
    if len(domain) > _LONGEST_LABEL or dns_subdomain(domain):
        longest = f"of lower-case letters, and at most {_LONGEST_LABEL} characters"
        return f"is {shown(value)}: the part before '/' must be a domain {longest}"
    # What has two of them is accepted, too.
    if "/" not in name and (len(name) > _LONGEST_IDENTIFIER or not _IDENTIFIER.fullmatch(name)):
        return (
            f"is {shown(value)}: the part after '/' must have letters, digits and '_', "
            f"and at most {_LONGEST_IDENTIFIER} characters"
        )
    return None


def extended_resource(value: str) -> str | None:
    is_native = "/" not in value or _NATIVE in value
    if is_native or value.startswith(_OF_QUOTAS) or label_key(f"{_OF_QUOTAS}{value}"):
        return f'is {shown(value)}: must be a name with your own domain, such as "example.com/gpu-shared"'
    return None


def amount(value: Any) -> str | None:
    """Of JSON: numbers are amounts, too."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            quantity.parse(str(value))
        except cel.CelError:
            pass
        else:
            return None
    return f"is {shown(value)}: must be an amount, such as 8Gi"


def _name_part(value: str, name: str) -> str | None:
    if len(name) > _LONGEST_LABEL or not _NAME_PART.fullmatch(name):
        allowed = "letters, digits, '-', '_' and '.', begin and end with a letter or digit"
        return _must(value, allowed, _LONGEST_LABEL)
    return None


def _must(value: str, allowed: str, longest: int) -> str:
    return f"is {shown(value)}: must have {allowed}, and have at most {longest} characters"
