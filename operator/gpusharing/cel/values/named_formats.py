"""Kubernetes' named formats, with the messages of its API server."""

import calendar
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gpusharing.cel.values import urls, utf8

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = _LABEL + r"(\." + _LABEL + ")*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_EXPRESSION: Final = re.compile(_LABEL)
_LABEL_1035_EXPRESSION: Final = re.compile(_LABEL_1035)
_KEY_EXPRESSION: Final = re.compile(_KEY)
_LONGEST_LABEL: Final = 63
_LONGEST_SUBDOMAIN: Final = 253

_UUID: Final = re.compile("[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_BASE64: Final = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_DATE: Final = re.compile("([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """`validate` gives the reasons why a text is refused, none if it is valid."""

    name: str
    validate: Callable[[str], list[str]]
    pattern_length: int
    """Of the regular expression that Kubernetes charges for."""


def _longer_than(limit: int, text: str, unit: str = "bytes") -> list[str]:
    """It is always bytes that count, but Kubernetes does not always say so."""
    too_long = len(utf8.encoded(text)) > limit
    return [f"must be no more than {limit} {unit}"] if too_long else []


def _unlike(expression: str, rule: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {listed}regex used for validation is '{expression}')"


def _is_subdomain(text: str) -> bool:
    return all(_LABEL_EXPRESSION.fullmatch(label) for label in text.split("."))


def _label(text: str) -> list[str]:
    reasons = _longer_than(_LONGEST_LABEL, text, "characters")
    if _LABEL_EXPRESSION.fullmatch(text):
        return reasons
    if _is_subdomain(text):
        return [*reasons, "must not contain dots"]
    rule = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character"
    )
    return [*reasons, _unlike(_LABEL, rule, "my-name", "123-abc")]


def _subdomain(text: str, unit: str = "characters") -> list[str]:
    reasons = _longer_than(_LONGEST_SUBDOMAIN, text, unit)
    if _is_subdomain(text):
        return reasons
    rule = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
        "and must start and end with an alphanumeric character"
    )
    return [*reasons, _unlike(_SUBDOMAIN, rule, "example.com")]


def _label_1035(text: str) -> list[str]:
    reasons = _longer_than(_LONGEST_LABEL, text, "characters")
    if _LABEL_1035_EXPRESSION.fullmatch(text):
        return reasons
    rule = (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
        "start with an alphabetic character, and end with an alphanumeric character"
    )
    return [*reasons, _unlike(_LABEL_1035, rule, "my-name", "abc-123")]


def _prefix_of(validate: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """What a name is generated from may end with a dash."""

    def validate_prefix(text: str) -> list[str]:
        if len(text) < 2 or not text.endswith("-"):
            return validate(text)
        # The last byte before the dash gives way, be it a whole character or not.
        return validate(utf8.decoded(utf8.encoded(text)[:-2] + b"a"))

    return validate_prefix


_KEY_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_UNLIKE_KEY: Final = _unlike(_KEY, _KEY_RULE, "MyName", "my.name", "123-abc")


def _qualified_name(text: str) -> list[str]:
    parts = text.split("/")
    if len(parts) > 2:
        prefix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_UNLIKE_KEY} {prefix}"]
    reasons = []
    if len(parts) == 2:
        reasons = _subdomain(parts[0], "bytes") if parts[0] else ["must be non-empty"]
    name = parts[-1]
    of_name = _longer_than(_LONGEST_LABEL, name) if name else ["must be non-empty"]
    if not _KEY_EXPRESSION.fullmatch(name):
        of_name.append(_UNLIKE_KEY)
    return [f"prefix part {reason}" for reason in reasons] + [f"name part {reason}" for reason in of_name]


def _label_value(text: str) -> list[str]:
    reasons = _longer_than(_LONGEST_LABEL, text)
    if not text or _KEY_EXPRESSION.fullmatch(text):
        return reasons
    rule = (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
        "and must start and end with an alphanumeric character"
    )
    return [*reasons, _unlike(f"({_KEY})?", rule, "MyValue", "my_value", "12345")]


def _uri(text: str) -> list[str]:
    problem = urls.problem(text)
    return [] if problem is None else [problem]


def _uuid(text: str) -> list[str]:
    return [] if _UUID.fullmatch(text) else ["does not match the UUID format"]


def _byte(text: str) -> list[str]:
    return [] if _BASE64.fullmatch(text) else ["invalid base64"]


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    # The year 0 is a leap year, like 400.
    return 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year or 400, month)[1]


def _date(text: str) -> list[str]:
    return [] if _is_date(text) else ["invalid date"]


def _datetime(text: str) -> list[str]:
    """What follows a second T is not looked at."""
    parts = text.lower().split("t")
    match = _TIME.fullmatch(parts[1]) if len(parts) > 1 and _is_date(parts[0]) else None
    is_valid = match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"
    return [] if is_valid else ["invalid datetime"]


NAMED_FORMATS: Final = MappingProxyType(
    {
        "dns1123Label": NamedFormat("DNS1123Label", _label, 30),
        "dns1123Subdomain": NamedFormat("DNS1123Subdomain", _subdomain, 60),
        "dns1035Label": NamedFormat("DNS1035Label", _label_1035, 30),
        "qualifiedName": NamedFormat("QualifiedName", _qualified_name, 60),
        "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _prefix_of(_label), 30),
        "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _prefix_of(_subdomain), 60),
        "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _prefix_of(_label_1035), 30),
        "labelValue": NamedFormat("LabelValue", _label_value, 40),
        "uri": NamedFormat("URI", _uri, 1103),
        "uuid": NamedFormat("uuid", _uuid, 70),
        "byte": NamedFormat("byte", _byte, 84),
        "date": NamedFormat("date", _date, 71),
        "datetime": NamedFormat("datetime", _datetime, 71),
    }
)
