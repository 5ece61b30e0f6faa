"""URLs as Go's net/url reads them, with its errors, since `format.uri().validate()` hands them out."""

import re
from collections.abc import Callable
from typing import Final

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.values import utf8
from gpusharing.cel.values.network import parse_address
from gpusharing.cel.values.quoting import quote

# What stands for itself in each part, or does not: such bytes are written %XX.
_UNRESERVED: Final = r"A-Za-z0-9_.~\-"
_HOST: Final = re.compile(rf"[{_UNRESERVED}!$&'()*+,;=:\[\]<>\"]")
_ESCAPED_IN_HOST: Final = re.compile(rf"[^{_UNRESERVED}!$&'()*+,;=:\[\]<>\"]")
_ESCAPED_IN_USER: Final = re.compile(rf"[^{_UNRESERVED}$&+,;=]")
_ESCAPED_IN_PATH: Final = re.compile(rf"[^{_UNRESERVED}$&+,/:;=@]")
_ESCAPED_IN_FRAGMENT: Final = re.compile(rf"[^{_UNRESERVED}$&+,/:;=?@!()*]")
# What need not be escaped where somebody left it as it is.
_WRITTEN_PATH: Final = re.compile(rf"[{_UNRESERVED}$&+,/:;=@!'()*\[\]%]*")
_WRITTEN_FRAGMENT: Final = re.compile(rf"[{_UNRESERVED}$&+,/:;=?@!'()*\[\]%]*")

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_USERINFO: Final = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")
_PORT: Final = re.compile(r"(:[0-9]*)?")
_ESCAPED: Final = re.compile(r"%([0-9a-fA-F]{2})")
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})")
_HOST_TOKEN: Final = re.compile(r"%[0-9a-fA-F]{2}|%.{0,2}|[\x00-\x7f]")
_ENCODED_PERCENT: Final = "%25"
_MOST_PARAMETERS: Final = 10_000


class Url:
    """Immutable. Its parts hold one character per byte, because an escaped byte need not be part of any character."""

    __slots__ = (
        "_escaped_fragment",
        "_escaped_path",
        "_host",
        "_omits_host",
        "_opaque",
        "_parameters",
        "_query",
        "_user",
        "scheme",
    )

    def __init__(self, raw: str) -> None:
        text, _, fragment = raw.partition("#")
        self.scheme, rest = _split_scheme(text)
        # None is no query at all, unlike the empty one.
        path, mark, query = rest.partition("?")
        self._query: str | None = query if mark else None
        self._opaque = self._host = ""
        self._user: str | None = None
        self._parameters: dict[str, list[str]] | None = None
        self._omits_host = False
        if self.scheme and not path.startswith("/"):
            self._opaque, path = path, ""
        elif path.startswith("//") and (self.scheme or not path.startswith("///")):
            authority, slash, path = path[2:].partition("/")
            path = slash + path
            self._user, self._host = _read_authority(self.scheme, authority)
        elif self.scheme:
            self._omits_host = True
        self._escaped_path = _normalized(path, _WRITTEN_PATH, _ESCAPED_IN_PATH)
        self._escaped_fragment = _normalized(fragment, _WRITTEN_FRAGMENT, _ESCAPED_IN_FRAGMENT)

    @property
    def host(self) -> str:
        return _text(self._host)

    @property
    def hostname(self) -> str:
        return _text(_split_port(self._host)[0])

    @property
    def port(self) -> str:
        return _split_port(self._host)[1]

    @property
    def escaped_path(self) -> str:
        return self._escaped_path

    def query(self) -> dict[str, list[str]]:
        """What cannot be read is left out."""
        if self._parameters is None:
            self._parameters = _read_query(self._query or "")
        return self._parameters

    def __str__(self) -> str:
        return _text(self.canonical())

    def equals(self, other: "Url") -> bool:
        return self.canonical() == other.canonical()

    def canonical(self) -> str:
        """One character per byte."""
        scheme = f"{self.scheme}:" if self.scheme else ""
        query = "" if self._query is None else f"?{self._query}"
        fragment = f"#{self._escaped_fragment}" if self._escaped_fragment else ""
        return f"{scheme}{self._opaque or self._authority() + self._escaped_path}{query}{fragment}"

    def _authority(self) -> str:
        is_named = self._host or self._user is not None
        if not is_named and (self._omits_host or not self.scheme or not self._escaped_path):
            return ""
        user = "" if self._user is None else f"{self._user}@"
        return f"//{user}{_encoded(self._host, _ESCAPED_IN_HOST)}"


def parse(text: str) -> Url:
    """Raises if the text is neither an absolute URL nor an absolute path."""
    raw = _bytes(text)
    try:
        _check(raw)
        return Url(raw)
    except EvaluationError as error:
        raise EvaluationError(
            f"URL parse error during conversion from string: parse {quote(text)}: {error.message}"
        ) from None


def is_url(text: str) -> bool:
    return problem(text) is None


def problem(text: str) -> str | None:
    """Why it is no URL, in Go's words."""
    try:
        _check(_bytes(text))
    except EvaluationError as error:
        return f"parse {quote(text)}: {error.message}"
    return None


def _check(raw: str) -> None:
    """As a server checks what a client asks for: a fragment is then no part of its own."""
    if _CONTROL.search(raw):
        raise EvaluationError("net/url: invalid control character in URL")
    if not raw:
        raise EvaluationError("empty url")
    if raw == "*":
        return
    scheme, rest = _split_scheme(raw)
    path = rest.partition("?")[0]
    if not path.startswith("/"):
        if not scheme:
            raise EvaluationError("invalid URI for request")
        return
    if scheme and path.startswith("//"):
        authority, slash, path = path[2:].partition("/")
        _read_authority(scheme, authority)
        path = slash + path
    _refuse_broken_escapes(path)


def _read_query(query: str) -> dict[str, list[str]]:
    parameters: dict[str, list[str]] = {}
    if query.count("&") >= _MOST_PARAMETERS:
        return parameters
    for part in query.split("&"):
        if part and ";" not in part and not _BROKEN_ESCAPE.search(part):
            key, _, value = part.replace("+", " ").partition("=")
            parameters.setdefault(_text(_decoded(key)), []).append(_text(_decoded(value)))
    return parameters


def _split_scheme(raw: str) -> tuple[str, str]:
    if raw.startswith(":"):
        raise EvaluationError("missing protocol scheme")
    match = _SCHEME.match(raw)
    return (match[1].lower(), raw[match.end() :]) if match else ("", raw)


def _read_authority(scheme: str, authority: str) -> tuple[str | None, str]:
    """User and password as they are written, or None; and the decoded host with its port."""
    userinfo, at, host = authority.rpartition("@")
    host = _read_host(scheme, host)
    if not at:
        return None, host
    if not _USERINFO.fullmatch(userinfo):
        raise EvaluationError("net/url: invalid userinfo")
    name, colon, password = userinfo.partition(":")
    return _normalized_user(name) + colon + _normalized_user(password), host


def _read_host(scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise EvaluationError("invalid IP-literal")
    if bracket == 0:
        return _read_ip_literal(host)
    first, last = host.find(":"), host.rfind(":")
    if first >= 0:
        _check_port(host[first if scheme in ("http", "https") else last :])
    return _decoded_host(host)


def _read_ip_literal(host: str) -> str:
    end = host.rfind("]")
    if end < 0:
        raise EvaluationError("missing ']' in host")
    _check_port(host[end + 1 :])
    address, percent, zone = host[1:end].partition(_ENCODED_PERCENT)
    literal = _decoded_host(address) + _decoded_zone(percent + zone)
    try:
        ip, _ = parse_address(_text(literal))
    except EvaluationError as error:
        raise EvaluationError(f"invalid host: {error.message}") from None
    if ip.family == 4:
        raise EvaluationError("invalid IP-literal")
    return f"[{literal}]{host[end + 1 :]}"


def _check_port(port: str) -> None:
    if not _PORT.fullmatch(port):
        raise EvaluationError(f"invalid port {quote(_text(port))} after host")


def _split_port(host: str) -> tuple[str, str]:
    colon = host.rfind(":")
    port = ""
    if colon >= 0 and _PORT.fullmatch(host, colon):
        host, port = host[:colon], host[colon + 1 :]
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return host, port


def _decoded_host(host: str) -> str:
    """Only bytes beyond ASCII may be escaped there, and the percent sign."""
    _check_host(host, lambda byte: byte > "\x7f")
    return _decoded(host)


def _decoded_zone(zone: str) -> str:
    """Only what could stand in a host unescaped may be escaped there, and the space, and the percent sign."""
    _check_host(zone, lambda byte: byte == " " or _HOST.match(byte) is not None)
    return _decoded(zone)


def _check_host(text: str, may_be_escaped: Callable[[str], bool]) -> None:
    for token in _HOST_TOKEN.findall(text):
        if token[0] == "%":
            is_whole = _ESCAPED.fullmatch(token) is not None
            if token != _ENCODED_PERCENT and not (is_whole and may_be_escaped(_decoded(token))):
                raise _broken_escape(token)
        elif not _HOST.match(token):
            raise EvaluationError(f"invalid character {quote(token)} in host name")


def _normalized_user(part: str) -> str:
    _refuse_broken_escapes(part)
    return _encoded(_decoded(part), _ESCAPED_IN_USER)


def _normalized(part: str, written: re.Pattern[str], escaped: re.Pattern[str]) -> str:
    """As it is written if it can stand so, else escaped anew."""
    _refuse_broken_escapes(part)
    return part if written.fullmatch(part) else _encoded(_decoded(part), escaped)


def _refuse_broken_escapes(text: str) -> None:
    broken = _BROKEN_ESCAPE.search(text)
    if broken is not None:
        raise _broken_escape(text[broken.start() :])


def _broken_escape(text: str) -> EvaluationError:
    return EvaluationError(f"invalid URL escape {quote(_text(text[:3]))}")


def _decoded(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def _encoded(text: str, escaped: re.Pattern[str]) -> str:
    return escaped.sub(lambda match: f"%{ord(match[0]):02X}", text)


def _bytes(text: str) -> str:
    return utf8.encoded(text).decode("latin-1")


def _text(raw: str) -> str:
    return utf8.decoded(raw.encode("latin-1"))
