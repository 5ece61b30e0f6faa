import argparse

import pytest

from gpusharing.kube.address import Address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0.0.0.0:8080", Address("0.0.0.0", 8080)),  # noqa: S104
        ("[::]:8080", Address("::", 8080)),
        (":8080", Address("", 8080)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert Address.parse(text) == address


@pytest.mark.parametrize("text", ["", "localhost", "8080", "localhost:http", ":", ":-1", ":65536"])
def test_no_addresses(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}' is not HOST:PORT, such as 0.0.0.0:8080"):
        Address.parse(text)
