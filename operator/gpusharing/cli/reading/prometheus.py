"""What Prometheus has measured: one query, whose answer is bounded."""

import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Sequence
from http.client import HTTPException
from typing import Final
from urllib.parse import unquote, urlencode, urlsplit

import msgspec

from gpusharing.cli.exits import CommandError
from gpusharing.occupancy.usage import Name, Sample

_LONGEST: Final = 64 * 1024**2
"""Of an answer, in bytes: 100,000 samples."""
_TIMEOUT: Final = 15.0
_QUERY: Final = f'{{__name__=~"{"|".join(Name)}"}}'


class _Series(msgspec.Struct, frozen=True):
    metric: dict[str, str]
    value: tuple[float, str]
    """When, and what."""


class _Data(msgspec.Struct, frozen=True):
    result: list[_Series]


class _Answer(msgspec.Struct, frozen=True):
    data: _Data


def read(url: str) -> Sequence[Sample]:
    """Raises CommandError. A name and a password in the URL are sent by Basic authentication."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise CommandError(f"--prometheus {url}: not a URL such as http://localhost:9090")
    host = parts.netloc.rpartition("@")[2]
    place = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
    request = urllib.request.Request(f"{place}/api/v1/query?{urlencode({'query': _QUERY})}")  # noqa: S310
    if parts.username is not None:
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        # Not for who we are sent on to.
        request.add_unredirected_header("Authorization", f"Basic {b64encode(secret.encode()).decode()}")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310 (http and https only)
            data = response.read(_LONGEST + 1)
    except (OSError, HTTPException) as error:
        raise CommandError(f"Prometheus at {place} does not answer: {error}") from error
    if len(data) > _LONGEST:
        raise CommandError(f"Prometheus at {place} has more than {_LONGEST // 1024**2} MiB of these metrics")
    try:
        answer = msgspec.json.decode(data, type=_Answer)
    except msgspec.MsgspecError as error:
        raise CommandError(f"Prometheus at {place} answers something else: {error}") from error
    return list(_samples(answer))


def _samples(answer: _Answer) -> Iterator[Sample]:
    for one in answer.data.result:
        try:
            value = float(one.value[1])
        except ValueError:
            continue
        yield Sample(one.metric.get("__name__", ""), one.metric, value)
