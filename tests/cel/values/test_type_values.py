"""Types are called what Kubernetes calls them."""

from typing import Any

import pytest

from gpusharing.cel.values import durations, network, quantity, semver, timestamps, urls
from gpusharing.cel.values.named_formats import NAMED_FORMATS
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.optional import NONE
from gpusharing.cel.values.type_values import TypeValue, type_of


class OurList(list[Any]):
    """As the runtime has them."""


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (True, "bool"),
        (1, "int"),
        (Uint(1), "uint"),
        (1.0, "double"),
        ("a", "string"),
        (b"a", "bytes"),
        (None, "null_type"),
        ([1], "list"),
        (OurList(), "list"),
        ({}, "map"),
        (durations.parse("1s"), "google.protobuf.Duration"),
        (timestamps.parse("2024-01-01T00:00:00Z"), "google.protobuf.Timestamp"),
        (quantity.parse("1"), "kubernetes.Quantity"),
        (semver.parse("1.0.0"), "kubernetes.Semver"),
        (urls.parse("/"), "kubernetes.URL"),
        (NAMED_FORMATS["uuid"], "kubernetes.NamedFormat"),
        (network.parse_ip("::1"), "net.IP"),
        (network.parse_cidr("::1/8"), "net.CIDR"),
        (NONE, "optional_type"),
        (TypeValue("int"), "type"),
    ],
)
def test_the_type_of_a_value(value: object, name: str) -> None:
    assert type_of(value) == TypeValue(name)
