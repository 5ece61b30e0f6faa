"""Values of Kubernetes where a message wants a string: they are written there, as Kubernetes writes them."""

import json

import pytest

from cel.comparison import Comparison

pytestmark = pytest.mark.cluster

_TEXTS = {
    "quantity('0')": "0", "quantity('0.0')": "0", "quantity('1')": "1", "quantity('-1')": "-1", "quantity('+5')": "+5",
    "quantity('0005')": "0005", "quantity('m')": "0", "quantity('1000')": "1k", "quantity('1500')": "1500",
    "quantity('1.5')": "1500m", "quantity('1.500')": "1.500", "quantity('1.50')": "1500m",
    "quantity('100000')": "100k", "quantity('123456')": "123456", "quantity('80Gi')": "80Gi", "quantity('8Gi')": "8Gi",
    "quantity('1024Ki')": "1Mi", "quantity('1024Mi')": "1Gi", "quantity('7Mi')": "7Mi", "quantity('0.5Gi')": "512Mi",
    "quantity('1.5Gi')": "1536Mi", "quantity('0.3Ki')": "307200m", "quantity('0.0001Ki')": "102400u",
    "quantity('-0.0001Ki')": "-102400u", "quantity('-0.5Ki')": "-512", "quantity('0Gi')": "0",
    "quantity('-8Ei')": "-9223372036854775807", "quantity('9Ei')": "9223372036854775807",
    "quantity('100Ei')": "9223372036854775807", "quantity('15Ti')": "15Ti", "quantity('1e3')": "1e3",
    "quantity('12e3')": "12e3", "quantity('1e4')": "10e3", "quantity('1E')": "1E", "quantity('1e-3')": "1e-3",
    "quantity('1e-1')": "100e-3", "quantity('1e21')": "1e21", "quantity('1e22')": "10e21",
    "quantity('1e400')": "10e399", "quantity('1000E')": "1", "quantity('10000E')": "10", "quantity('1E21')": "1E21",
    "quantity('0.1n')": "1n", "quantity('1n')": "1n", "quantity('0.5u')": "500n", "quantity('12u')": "12u",
    "quantity('1100m')": "1100m", "quantity('123456789.123456789')": "123456789.123456789",
    "quantity('999999999999999999')": "999999999999999999", "quantity('1000000000000000000')": "1E",
    "quantity('1000000000000000000k')": "1", "quantity('-1000000000000000000k')": "-1", "quantity('1023')": "1023",
    "quantity('1025Ki')": "1025Ki", "quantity('2048Pi')": "2Ei", "quantity('1e2147483646')": "1e2147483646",
    "quantity('-128Mi')": "-128Mi", "quantity('.5k')": "500", "quantity('5.')": "5.", "quantity('1.G')": "1.G",
    "quantity('1000k')": "1M", "quantity('1001k')": "1001k", "quantity('0.00097656249999999Ki')": "1",
    "quantity('0.00097656249Ki')": "999999990n", "quantity('0.0009765626Ki')": "1000000103n",
    "quantity('0').add(1024)": "1024", "quantity('0').add(0)": "0", "quantity('0').add(quantity('1Ki'))": "1Ki",
    "quantity('0').add(quantity('1e3'))": "1e3", "quantity('0').add(quantity('500m'))": "500m",
    "quantity('0').add(quantity('9Ei'))": "9223372036854775807", "quantity('0').add(quantity('1e30'))": "1e30",
    "quantity('0').add(quantity('0.0001Ki'))": "102400u", "quantity('0').sub(1024)": "-1024",
    "quantity('0').sub(0)": "0", "quantity('0').sub(quantity('1Ki'))": "-1Ki",
    "quantity('0').sub(quantity('1e3'))": "-1e3", "quantity('0').sub(quantity('500m'))": "-500m",
    "quantity('0').sub(quantity('9Ei'))": "-9223372036854775807", "quantity('0').sub(quantity('1e30'))": "-1e30",
    "quantity('0').sub(quantity('0.0001Ki'))": "-102400u", "quantity('0Ki').add(1024)": "1024",
    "quantity('0Ki').add(0)": "0", "quantity('0Ki').add(quantity('1Ki'))": "1Ki",
    "quantity('0Ki').add(quantity('1e3'))": "1e3", "quantity('0Ki').add(quantity('500m'))": "500m",
    "quantity('0Ki').add(quantity('9Ei'))": "9223372036854775807", "quantity('0Ki').add(quantity('1e30'))": "1e30",
    "quantity('0Ki').add(quantity('0.0001Ki'))": "102400u", "quantity('0Ki').sub(1024)": "-1024",
    "quantity('0Ki').sub(0)": "0", "quantity('0Ki').sub(quantity('1Ki'))": "-1Ki",
    "quantity('0Ki').sub(quantity('1e3'))": "-1e3", "quantity('0Ki').sub(quantity('500m'))": "-500m",
    "quantity('0Ki').sub(quantity('9Ei'))": "-9223372036854775807", "quantity('0Ki').sub(quantity('1e30'))": "-1e30",
    "quantity('0Ki').sub(quantity('0.0001Ki'))": "-102400u", "quantity('1Ki').add(1024)": "2Ki",
    "quantity('1Ki').add(0)": "1Ki", "quantity('1Ki').add(quantity('1Ki'))": "2Ki",
    "quantity('1Ki').add(quantity('1e3'))": "2024", "quantity('1Ki').add(quantity('500m'))": "1024500m",
    "quantity('1Ki').add(quantity('9Ei'))": "9223372036854776831",
    "quantity('1Ki').add(quantity('1e30'))": "976562500000000000000000001Ki",
    "quantity('1Ki').add(quantity('0.0001Ki'))": "1024102400u", "quantity('1Ki').sub(1024)": "0",
    "quantity('1Ki').sub(0)": "1Ki", "quantity('1Ki').sub(quantity('1Ki'))": "0",
    "quantity('1Ki').sub(quantity('1e3'))": "24", "quantity('1Ki').sub(quantity('500m'))": "1023500m",
    "quantity('1Ki').sub(quantity('9Ei'))": "-9223372036854774783",
    "quantity('1Ki').sub(quantity('1e30'))": "-976562499999999999999999999Ki",
    "quantity('1Ki').sub(quantity('0.0001Ki'))": "1023897600u", "quantity('1e3').add(1024)": "2024",
    "quantity('1e3').add(0)": "1e3", "quantity('1e3').add(quantity('1Ki'))": "2024",
    "quantity('1e3').add(quantity('1e3'))": "2e3", "quantity('1e3').add(quantity('500m'))": "1000500e-3",
    "quantity('1e3').add(quantity('9Ei'))": "9223372036854776807",
    "quantity('1e3').add(quantity('1e30'))": "1000000000000000000000000001e3",
    "quantity('1e3').add(quantity('0.0001Ki'))": "1000102400e-6", "quantity('1e3').sub(1024)": "-24",
    "quantity('1e3').sub(0)": "1e3", "quantity('1e3').sub(quantity('1Ki'))": "-24",
    "quantity('1e3').sub(quantity('1e3'))": "0", "quantity('1e3').sub(quantity('500m'))": "999500e-3",
    "quantity('1e3').sub(quantity('9Ei'))": "-9223372036854774807",
    "quantity('1e3').sub(quantity('1e30'))": "-999999999999999999999999999e3",
    "quantity('1e3').sub(quantity('0.0001Ki'))": "999897600e-6", "quantity('1.5Gi').add(1024)": "1572865Ki",
    "quantity('1.5Gi').add(0)": "1536Mi", "quantity('1.5Gi').add(quantity('1Ki'))": "1572865Ki",
    "quantity('1.5Gi').add(quantity('1e3'))": "1610613736",
    "quantity('1.5Gi').add(quantity('500m'))": "1610612736500m",
    "quantity('1.5Gi').add(quantity('9Ei'))": "9223372038465388543",
    "quantity('1.5Gi').add(quantity('1e30'))": "953674316406250000001536Mi",
    "quantity('1.5Gi').add(quantity('0.0001Ki'))": "1610612736102400u", "quantity('1.5Gi').sub(1024)": "1572863Ki",
    "quantity('1.5Gi').sub(0)": "1536Mi", "quantity('1.5Gi').sub(quantity('1Ki'))": "1572863Ki",
    "quantity('1.5Gi').sub(quantity('1e3'))": "1610611736",
    "quantity('1.5Gi').sub(quantity('500m'))": "1610612735500m",
    "quantity('1.5Gi').sub(quantity('9Ei'))": "-9223372035244163071",
    "quantity('1.5Gi').sub(quantity('1e30'))": "-953674316406249999998464Mi",
    "quantity('1.5Gi').sub(quantity('0.0001Ki'))": "1610612735897600u",
    "quantity('-9Ei').add(1024)": "-9223372036854774783", "quantity('-9Ei').add(0)": "-9223372036854775807",
    "quantity('-9Ei').add(quantity('1Ki'))": "-9223372036854774783",
    "quantity('-9Ei').add(quantity('1e3'))": "-9223372036854774807",
    "quantity('-9Ei').add(quantity('500m'))": "-9223372036854775806500m", "quantity('-9Ei').add(quantity('9Ei'))": "0",
    "quantity('-9Ei').add(quantity('1e30'))": "999999999990776627963145224193",
    "quantity('-9Ei').add(quantity('0.0001Ki'))": "-9223372036854775806897600u",
    "quantity('-9Ei').sub(1024)": "-9223372036854776831", "quantity('-9Ei').sub(0)": "-9223372036854775807",
    "quantity('-9Ei').sub(quantity('1Ki'))": "-9223372036854776831",
    "quantity('-9Ei').sub(quantity('1e3'))": "-9223372036854776807",
    "quantity('-9Ei').sub(quantity('500m'))": "-9223372036854775807500m",
    "quantity('-9Ei').sub(quantity('9Ei'))": "-18446744073709551614",
    "quantity('-9Ei').sub(quantity('1e30'))": "-1000000000009223372036854775807",
    "quantity('-9Ei').sub(quantity('0.0001Ki'))": "-9223372036854775807102400u",
    "quantity('0.0001Ki').add(1024)": "1024102400u", "quantity('0.0001Ki').add(0)": "102400u",
    "quantity('0.0001Ki').add(quantity('1Ki'))": "1024102400u",
    "quantity('0.0001Ki').add(quantity('1e3'))": "1000102400u",
    "quantity('0.0001Ki').add(quantity('500m'))": "602400u",
    "quantity('0.0001Ki').add(quantity('9Ei'))": "9223372036854775807102400u",
    "quantity('0.0001Ki').add(quantity('1e30'))": "1000000000000000000000000000000102400u",
    "quantity('0.0001Ki').add(quantity('0.0001Ki'))": "204800u", "quantity('0.0001Ki').sub(1024)": "-1023897600u",
    "quantity('0.0001Ki').sub(0)": "102400u", "quantity('0.0001Ki').sub(quantity('1Ki'))": "-1023897600u",
    "quantity('0.0001Ki').sub(quantity('1e3'))": "-999897600u",
    "quantity('0.0001Ki').sub(quantity('500m'))": "-397600u",
    "quantity('0.0001Ki').sub(quantity('9Ei'))": "-9223372036854775806897600u",
    "quantity('0.0001Ki').sub(quantity('1e30'))": "-999999999999999999999999999999897600u",
    "quantity('0.0001Ki').sub(quantity('0.0001Ki'))": "0", "quantity('9Ei').add(1024)": "9223372036854776831",
    "quantity('9Ei').add(0)": "9223372036854775807", "quantity('9Ei').add(quantity('1Ki'))": "9223372036854776831",
    "quantity('9Ei').add(quantity('1e3'))": "9223372036854776807",
    "quantity('9Ei').add(quantity('500m'))": "9223372036854775807500m",
    "quantity('9Ei').add(quantity('9Ei'))": "18446744073709551614",
    "quantity('9Ei').add(quantity('1e30'))": "1000000000009223372036854775807",
    "quantity('9Ei').add(quantity('0.0001Ki'))": "9223372036854775807102400u",
    "quantity('9Ei').sub(1024)": "9223372036854774783", "quantity('9Ei').sub(0)": "9223372036854775807",
    "quantity('9Ei').sub(quantity('1Ki'))": "9223372036854774783",
    "quantity('9Ei').sub(quantity('1e3'))": "9223372036854774807",
    "quantity('9Ei').sub(quantity('500m'))": "9223372036854775806500m", "quantity('9Ei').sub(quantity('9Ei'))": "0",
    "quantity('9Ei').sub(quantity('1e30'))": "-999999999990776627963145224193",
    "quantity('9Ei').sub(quantity('0.0001Ki'))": "9223372036854775806897600u",
    "quantity('1e3').add(quantity('1')).sub(1)": "1e3", "quantity('4Gi').add(quantity('1')).sub(1)": "4Gi",
    "quantity('1.5').add(quantity('1')).sub(1)": "1500m", "semver('1.2.3')": "1.2.3",
    "semver('1.2.3-a.1.b+c.01')": "1.2.3-a.1.b+c.01", "semver('1.2.3+0-a')": "1.2.3+0-a",
    "semver('1.2.3--')": "1.2.3--", "semver('18446744073709551615.0.0')": "18446744073709551615.0.0",
    "semver('v01.2', true)": "1.2.0", "semver('1', true)": "1.0.0", "semver('v1.02.3+b', true)": "1.2.3+b",
    "url('https://a.b/c d')": "https://a.b/c%20d", "url('https://a.b')": "https://a.b",
    "url('HTTPS://u:p%41@h:80/p%20q?x=1#f g')": "https://u:pA@h:80/p%20q?x=1#f%20g", "url('mailto:a@b')": "mailto:a@b",
    "url('/a/../b')": "/a/../b", "url('//h/p')": "//h/p", "url('https://[::1]:8/')": "https://[::1]:8/",
    "url('https://a.b?')": "https://a.b?", "url('https://\\u00e4.b/\\u00e4')": "https://%C3%A4.b/%C3%A4",
    "url('https://a/?\\u00e4')": "https://a/?\xe4", "url('x:\\u00e4')": "x:\xe4", "ip('1.2.3.4')": "1.2.3.4",
    "ip('::')": "::", "ip('2001:db8:0:0:1::1')": "2001:db8::1:0:0:1", "ip('::1:0:0:0:0')": "0:0:0:1::",
    "cidr('1.2.3.4/8')": "1.2.3.4/8", "cidr('10.0.0.0/8')": "10.0.0.0/8", "cidr('2001:DB8::/32')": "2001:db8::/32",
    "device.attributes['d'].v": "1.2.3-a+b", "device.capacity['d'].c": "1Gi", "device.capacity['d'].e": "1536Mi",
    "optional.of(quantity('1'))": "1",
}  # fmt: skip
_WITHOUT_A_TEXT = ("format.date()", "duration('1s')", "timestamp(0)", "type(1)", "1", "b'a'", "[1]", "null", "true")
_STRINGS = ("google.protobuf.StringValue{{value: dyn({})}}", "google.protobuf.Value{{string_value: dyn({})}}")
_DEVICE = {
    "driver": "gpu.nvidia.com",
    "attributes": {"d/v": {"version": "1.2.3-a+b"}},
    "capacity": {"d/c": {"value": "1024Mi"}, "d/e": {"value": "1.5Gi"}},
}


@pytest.mark.parametrize("minor", [36, 37])
def test_they_are_written_as_kubernetes_writes_them(minor: int) -> None:
    selectors = [
        f"{string.format(value)} == {json.dumps(text)}" for value, text in _TEXTS.items() for string in _STRINGS
    ]
    assert _outcomes(selectors, minor) == dict.fromkeys(selectors, ("match", "match"))


@pytest.mark.parametrize("minor", [36, 37])
def test_others_are_errors(minor: int) -> None:
    selectors = [f"{string.format(value)} == ''" for value in _WITHOUT_A_TEXT for string in _STRINGS]
    assert _outcomes(selectors, minor) == dict.fromkeys(selectors, ("runtime-error", "runtime-error"))


def _outcomes(selectors: list[str], minor: int) -> dict[str, tuple[str, str]]:
    """Ours, and Kubernetes'."""
    with Comparison(minor) as comparison:
        verdicts = comparison.verdicts([(selector, [_DEVICE]) for selector in selectors])
        return {
            selector: (ours.outcome, theirs.outcome)
            for selector, ((ours, theirs),) in zip(selectors, verdicts, strict=True)
        }
