"""URLs, IP addresses and ranges of them."""

from typing import Final

TABLE: Final = """
url
    string_to_url: (string) -> kubernetes.URL
isURL
    is_url_string: (string) -> bool
getScheme
    url_get_scheme: kubernetes.URL.() -> string
getHost
    url_get_host: kubernetes.URL.() -> string
getHostname
    url_get_hostname: kubernetes.URL.() -> string
getPort
    url_get_port: kubernetes.URL.() -> string
getEscapedPath
    url_get_escaped_path: kubernetes.URL.() -> string
getQuery
    url_get_query: kubernetes.URL.() -> map(string, list(string))
ip
    string_to_ip: (string) -> net.IP
    cidr_ip: net.CIDR.() -> net.IP
isIP
    is_ip: (string) -> bool
ip.isCanonical
    ip_is_canonical: (string) -> bool
family
    ip_family: net.IP.() -> int
isUnspecified
    ip_is_unspecified: net.IP.() -> bool
isLoopback
    ip_is_loopback: net.IP.() -> bool
isLinkLocalMulticast
    ip_is_link_local_multicast: net.IP.() -> bool
isLinkLocalUnicast
    ip_is_link_local_unicast: net.IP.() -> bool
isGlobalUnicast
    ip_is_global_unicast: net.IP.() -> bool
cidr
    string_to_cidr: (string) -> net.CIDR
isCIDR
    is_cidr: (string) -> bool
containsIP
    cidr_contains_ip_string: net.CIDR.(string) -> bool
    cidr_contains_ip_ip: net.CIDR.(net.IP) -> bool
containsCIDR
    cidr_contains_cidr_string: net.CIDR.(string) -> bool
    cidr_contains_cidr: net.CIDR.(net.CIDR) -> bool
masked
    cidr_masked: net.CIDR.() -> net.CIDR
prefixLength
    cidr_prefix_length: net.CIDR.() -> int
"""
