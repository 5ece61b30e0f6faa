"""IP addresses, networks and URLs."""

from cel.generator import values
from cel.generator.grammar import rule, rules
from cel.generator.kinds import Kind
from cel.generator.quoting import quoted
from cel.generator.writing import Writer

rules("""
1 ip: ip($addressText)
0.3 ip: $cidr.ip()
1 bool: isIP($addressText)
0.5 bool: ip.isCanonical($addressText)
0.2 int: $ip.family()
0.3 bool: $ip.isUnspecified()
0.3 bool: $ip.isLoopback()
0.3 bool: $ip.isLinkLocalMulticast()
0.3 bool: $ip.isLinkLocalUnicast()
0.3 bool: $ip.isGlobalUnicast()
1 cidr: cidr($networkText)
0.5 cidr: $cidr.masked()
1 bool: isCIDR($networkText)
0.5 bool: $cidr.containsIP($ip)
0.5 bool: $cidr.containsIP($addressText)
0.5 bool: $cidr.containsCIDR($cidr)
0.5 bool: $cidr.containsCIDR($networkText)
0.2 int: $cidr.prefixLength()
0.2 bool: ($cidr.prefixLength() < $int)
1 url: url($urlText)
1 bool: isURL($urlText)
urlPart: $url.getScheme()
urlPart: $url.getHost()
urlPart: $url.getHostname()
urlPart: $url.getPort()
urlPart: $url.getEscapedPath()
1 map(string, list(string)): $url.getQuery()
0.5 list(string): $url.getQuery()[$string]
0.5 string: $urlPart
0.7 bool: ($urlPart == $string)
0.3 bool: ($url.getQuery().size() == $int)
0.1 addressText: $string
0.1 networkText: $string
0.1 urlText: $string
""")


@rule("ip", 3, leaf=True)
def _ip(writer: Writer, _kind: Kind, _fuel: int) -> str:
    return f"ip({_address_text(writer, _kind, _fuel)})"


@rule("cidr", 3, leaf=True)
def _cidr(writer: Writer, _kind: Kind, _fuel: int) -> str:
    return f"cidr({_network_text(writer, _kind, _fuel)})"


@rule("url", 3, leaf=True)
def _url(writer: Writer, _kind: Kind, _fuel: int) -> str:
    return f"url({_url_text(writer, _kind, _fuel)})"


@rule("addressText", 5, leaf=True)
def _address_text(writer: Writer, _kind: Kind, _fuel: int) -> str:
    return _text(writer, values.ADDRESSES, values.ODD_ADDRESSES)


@rule("networkText", 5, leaf=True)
def _network_text(writer: Writer, _kind: Kind, _fuel: int) -> str:
    return _text(writer, values.NETWORKS, values.ODD_NETWORKS)


@rule("urlText", 5, leaf=True)
def _url_text(writer: Writer, _kind: Kind, _fuel: int) -> str:
    return _text(writer, values.URLS, values.ODD_URLS)


def _text(writer: Writer, usual: tuple[str, ...], odd: tuple[str, ...]) -> str:
    return quoted(writer.random, writer.random.choice(odd if writer.random.random() < 0.2 else usual))
