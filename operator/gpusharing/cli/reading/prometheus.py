"""What Prometheus has measured: queries whose answers are bounded."""

import urllib.request
from base64 import b64encode
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from math import isfinite
from typing import Final, NamedTuple
from urllib.parse import unquote, urlencode, urlsplit

import msgspec

from gpusharing.cli.exits import CommandError
from gpusharing.cli.reading.client import some_of
from gpusharing.occupancy.usage import Name, Sample

_LONGEST: Final = 64 * 1024**2
"""Of an answer, in bytes: 100,000 samples."""
_TIMEOUT: Final = 15.0
_QUERY: Final = f'{{__name__=~"{"|".join(Name)}"}}'


class _Series(msgspec.Struct, frozen=True):
    metric: dict[str, str]
    value: tuple[float, str] | None = None
    """When, and what."""
    values: list[tuple[float, str]] = []
    """Of a time."""


class _Data(msgspec.Struct, frozen=True):
    result: list[_Series]


class _Answer(msgspec.Struct, frozen=True):
    data: _Data


class Line(NamedTuple):
    labels: Mapping[str, str]
    values: Mapping[float, float]
    """By moment."""


def read(url: str) -> Sequence[Sample]:
    """Raises CommandError. A name and a password in the URL are sent by Basic authentication."""
    found = _ask(url, "query", {"query": _QUERY})
    return [
        Sample(one.metric.get("__name__", ""), one.metric, value)
        for one in found
        if one.value is not None and (value := _number(one.value[1])) is not None
    ]


def read_range(url: str, query: str, *, start: float, end: float, step: int) -> Sequence[Line]:
    """Raises CommandError."""
    asked = {"query": query, "start": f"{start:.0f}", "end": f"{end:.0f}", "step": str(step)}
    return [
        Line(one.metric, {at: value for at, text in one.values if (value := _number(text)) is not None})
        for one in _ask(url, "query_range", asked)
    ]


def _ask(url: str, what: str, query: Mapping[str, str]) -> Sequence[_Series]:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise CommandError(f"--prometheus {url}: not a URL such as http://localhost:9090")
    host = parts.netloc.rpartition("@")[2]
    place = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
    request = urllib.request.Request(f"{place}/api/v1/{what}?{urlencode(query)}")  # noqa: S310
    if parts.username is not None:
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        # Not for who we are sent on to.
        request.add_unredirected_header("Authorization", f"Basic {b64encode(secret.encode()).decode()}")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310 (http and https only)
            data = some_of(response, _LONGEST + 1, _TIMEOUT)
    except (OSError, HTTPException) as error:
        raise CommandError(f"Prometheus at {place} does not answer: {error}") from error
    if len(data) > _LONGEST:
        raise CommandError(f"Prometheus at {place} has more than {_LONGEST // 1024**2} MiB of these metrics")
    try:
        return msgspec.json.decode(data, type=_Answer).data.result
    except msgspec.MsgspecError as error:
        raise CommandError(f"Prometheus at {place} answers something else: {error}") from error


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None
