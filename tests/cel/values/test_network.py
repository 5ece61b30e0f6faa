"""IP addresses and ranges give the answers of Kubernetes 1.37."""

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.values.network import Ip, is_canonical_ip, is_cidr, is_ip, parse_cidr, parse_ip

# Text, canonical form, family, and which of unspecified, loopback, link-local multicast, link-local unicast and
# global unicast it is.
ADDRESSES = [
    ("127.0.0.1", "127.0.0.1", 4, "loopback"),
    ("0.0.0.0", "0.0.0.0", 4, "unspecified"),  # noqa: S104 (nobody listens here)
    ("255.255.255.255", "255.255.255.255", 4, ""),
    ("10.1.2.3", "10.1.2.3", 4, "global"),
    ("169.254.169.254", "169.254.169.254", 4, "local"),
    ("224.0.0.1", "224.0.0.1", 4, "local multicast"),
    ("224.0.1.1", "224.0.1.1", 4, ""),
    ("240.0.0.1", "240.0.0.1", 4, "global"),
    ("::", "::", 6, "unspecified"),
    ("::1", "::1", 6, "loopback"),
    ("2001:db8::abcd", "2001:db8::abcd", 6, "global"),
    ("2001:DB8::ABCD", "2001:db8::abcd", 6, "global"),
    ("2001:db8:0:0:0:0:0:abcd", "2001:db8::abcd", 6, "global"),
    ("0:0:1:0:0:0:1:1", "0:0:1::1:1", 6, "global"),
    ("1:0:0:2:0:0:0:3", "1:0:0:2::3", 6, "global"),
    ("1:0:2:0:3:0:4:0", "1:0:2:0:3:0:4:0", 6, "global"),
    ("febf::1", "febf::1", 6, "local"),
    ("fec0::1", "fec0::1", 6, "global"),
    ("ff02::1", "ff02::1", 6, "local multicast"),
    ("ff12::1", "ff12::1", 6, "local multicast"),
    ("fd00::1", "fd00::1", 6, "global"),
    ("::1.2.3.4", "::102:304", 6, "global"),
    ("1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0", 6, "global"),
    ("::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8", 6, "global"),
]

NO_ADDRESSES = [
    ("", "unable to parse IP"),
    ("abc", "unable to parse IP"),
    ("1.2.3", "IPv4 address too short"),
    ("1.2.3.4.5", "IPv4 address too long"),
    ("1.2.3.256", "IPv4 field has value >255"),
    ("01.2.3.4", "IPv4 field has octet with leading zero"),
    ("1..2.3", 'IPv4 field must have at least one digit (at ".2.3")'),
    (".1.2.3", 'IPv4 field must have at least one digit (at ".1.2.3")'),
    ("1.2.3.", 'IPv4 field must have at least one digit (at ".")'),
    ("1.2.3.a", 'unexpected character (at "a")'),
    ("1.2.3.4/8", 'unexpected character (at "/8")'),
    ("1.2.3.4\n", r'unexpected character (at "\n")'),
    ("１.2.3.4", 'unexpected character (at "１.2.3.4")'),  # noqa: RUF001 (a digit, but not of ASCII)
    (":::1", 'each colon-separated field must have at least one digit (at ":1")'),
    ("1::2::3", 'multiple :: in address (at ":3")'),
    ("1:2:3:4:5:6:7", "address string too short"),
    ("1:2:3:4:5:6:7:8:9", 'trailing garbage after address (at "9")'),
    ("12345::", 'each group must have 4 or less digits (at "12345::")'),
    ("g::", 'each colon-separated field must have at least one digit (at "g::")'),
    ("1:", 'colon must be followed by more characters (at ":")'),
    ("1:2:3:4:5:6:7:8::", "the :: must expand to at least one field of zeros"),
    ("::1.2.3", "IPv4 address too short"),
    ("1.2.3.4::", 'unexpected character (at "::")'),
    (
        "1:2:3:4:5:6:7:1.2.3.4",
        'embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")',
    ),
    ("fe80::1%", "zone must be a non-empty string"),
    ("%eth0", "missing IPv6 address"),
]

# Text, canonical form, masked.
RANGES = [
    ("10.1.2.3/8", "10.1.2.3/8", "10.0.0.0/8"),
    ("0.0.0.0/0", "0.0.0.0/0", "0.0.0.0/0"),
    ("1.2.3.4/32", "1.2.3.4/32", "1.2.3.4/32"),
    ("::/0", "::/0", "::/0"),
    ("2001:DB8::1/32", "2001:db8::1/32", "2001:db8::/32"),
    ("fe80::1/10", "fe80::1/10", "fe80::/10"),
]

NO_RANGES = [
    "", "10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/08", "10.0.0.0/00", "10.0.0.0/+8", "10.0.0.0/-1",
    "10.0.0.0/8/8", "10.0.0.0/x", "10.0.0.0/8 ", "10.0.0/8", "::1/129", "fe80::1%eth0/64", "::ffff:1.2.3.4/120",
    "10.0.0.0/99999999999999999999",
]  # fmt: skip


@pytest.mark.parametrize(("text", "canonical", "family", "kind"), ADDRESSES)
def test_an_address(text: str, canonical: str, family: int, kind: str) -> None:
    ip = parse_ip(text)
    kinds = {
        "unspecified": ip.is_unspecified(),
        "loopback": ip.is_loopback(),
        "local multicast": ip.is_link_local_multicast(),
        "local": ip.is_link_local_unicast(),
        "global": ip.is_global_unicast(),
    }
    assert is_ip(text)
    assert (str(ip), ip.family) == (canonical, family)
    assert is_canonical_ip(text) == (text == canonical)
    assert [name for name, applies in kinds.items() if applies] == ([kind] if kind else [])


@pytest.mark.parametrize(("text", "message"), NO_ADDRESSES)
def test_what_is_no_address_is_refused_in_go_words(text: str, message: str) -> None:
    assert not is_ip(text)
    with pytest.raises(EvaluationError) as caught:
        parse_ip(text)
    assert caught.value.message.startswith("IP Address ")
    assert caught.value.message.endswith(f"): {message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fe80::1%eth0", 'IP address "fe80::1%eth0" with zone value is not allowed'),
        ("::ffff:1.2.3.4", 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'),
        ("::ffff:0:0", 'IPv4-mapped IPv6 address "::ffff:0:0" is not allowed'),
    ],
)
def test_zones_and_addresses_inside_addresses_are_refused(text: str, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        is_canonical_ip(text)
    assert caught.value.message == message


@pytest.mark.parametrize(("text", "canonical", "masked"), RANGES)
def test_a_range(text: str, canonical: str, masked: str) -> None:
    cidr = parse_cidr(text)
    assert is_cidr(text)
    assert str(cidr) == canonical
    assert str(cidr.masked()) == masked
    assert str(cidr.ip) == canonical.partition("/")[0]
    assert cidr.equals(cidr.masked()) == (canonical == masked)


@pytest.mark.parametrize("text", NO_RANGES)
def test_what_is_no_range_is_refused(text: str) -> None:
    assert not is_cidr(text)
    with pytest.raises(EvaluationError):
        parse_cidr(text)


@pytest.mark.parametrize(
    ("cidr", "ip", "contained"),
    [
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.0.0.0", False),
        ("10.9.9.9/8", "10.0.0.0", True),
        ("0.0.0.0/0", "255.1.1.1", True),
        ("0.0.0.0/0", "::1", False),
        ("::/0", "1.1.1.1", False),
        ("2001:db8::/32", "2001:db9::1", False),
        ("1.2.3.4/31", "1.2.3.5", True),
        ("1.2.3.4/31", "1.2.3.6", False),
    ],
)
def test_a_range_contains_addresses_of_its_family(cidr: str, ip: str, contained: bool) -> None:
    assert parse_cidr(cidr).contains_ip(parse_ip(ip)) == contained


@pytest.mark.parametrize(
    ("outer", "inner", "contained"),
    [
        ("10.0.0.0/8", "10.1.0.0/16", True),
        ("10.1.0.0/16", "10.0.0.0/8", False),
        ("10.1.2.3/8", "10.0.0.0/8", True),
        ("10.0.0.0/8", "11.0.0.0/16", False),
        ("0.0.0.0/0", "1.0.0.0/8", True),
        ("0.0.0.0/0", "::/0", False),
        ("::/0", "1::/16", True),
    ],
)
def test_a_range_contains_smaller_ones(outer: str, inner: str, contained: bool) -> None:
    assert parse_cidr(outer).contains_cidr(parse_cidr(inner)) == contained


@given(st.ip_addresses(v=4))
def test_every_ipv4_address_is_canonical(address: IPv4Address) -> None:
    assert is_canonical_ip(str(address))
    assert parse_ip(str(address)).number == int(address)


@given(st.ip_addresses(v=6))
def test_every_ipv6_address_is_read_from_any_form(address: IPv6Address) -> None:
    assume(address.ipv4_mapped is None)
    ip = parse_ip(address.exploded)
    assert ip.equals(Ip(6, int(address)))
    assert is_canonical_ip(str(ip))
    assert ip.equals(parse_ip(str(ip).upper()))


@given(st.ip_addresses(v=4), st.integers(0, 32), st.ip_addresses(v=4), st.integers(0, 32))
def test_ranges_are_those_of_the_library(one: IPv4Address, bits: int, other: IPv4Address, other_bits: int) -> None:
    outer, inner = f"{one}/{bits}", f"{other}/{other_bits}"
    expected = ip_network(inner, strict=False).subnet_of(ip_network(outer, strict=False))  # type: ignore[arg-type]
    assert parse_cidr(outer).contains_cidr(parse_cidr(inner)) == expected
