"""Objects as Go's typed clients send them: protobuf, from which `kubectl create configmap` does not fall back."""

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from gpusharing.demo.apiserver.errors import bad_request
from gpusharing.demo.apiserver.kinds import definitions

Json = dict[str, Any]
MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\0"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def decoded(data: bytes) -> Json:
    """With apiVersion and kind. Raises StatusError."""
    if not data.startswith(_MAGIC):
        raise bad_request("the object provided is unrecognized: no envelope")
    try:
        envelope = dict(_fields(data[len(_MAGIC) :]))
        about = {number: bytes(value).decode() for number, value in _fields(envelope[1])}
        api_version, kind = about.get(1, ""), about.get(2, "")
        return {"apiVersion": api_version, "kind": kind, **_message(_name_of(api_version, kind), envelope.get(2, b""))}
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise bad_request(f"the object provided is unrecognized: {error!r}") from None


def _name_of(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    wanted = {"group": group, "version": version, "kind": kind}
    for name, schema in definitions().schemas.items():
        if wanted in schema.get("x-kubernetes-group-version-kind", ()):
            return name
    raise ValueError(f"no kind {kind} in version {api_version}")


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Numbers and raw values."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value: Any
            value, place = _varint(data, place)
        elif wire == _BYTES:
            length, place = _varint(data, place)
            if place + length > len(data):
                raise ValueError("it ends too early")
            value, place = data[place : place + length], place + length
        elif wire in {_FIXED64, _FIXED32}:
            length = 8 if wire == _FIXED64 else 4
            value, place = data[place : place + length], place + length
        else:
            raise ValueError(f"wire type {wire}")
        yield number, value


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


def _message(name: str, data: bytes) -> Json:
    """Go writes zero values of most fields; they are left out, as JSON leaves them out."""
    known: Mapping[str, Any] = definitions().messages[name]
    properties = definitions().schemas.get(name, {}).get("properties", {})
    found: Json = {}
    for number, raw in _fields(data):
        if (field := known.get(str(number))) is None:
            continue
        key, kind, often = field
        if often == "map":
            entry = dict(_fields(raw))
            found.setdefault(key, {})[bytes(entry.get(1, b"")).decode()] = _value(kind, entry.get(2, b""))
            continue
        value = _value(kind, raw)
        if often == "repeated":
            found.setdefault(key, []).append(value)
        elif key not in properties and isinstance(value, dict):
            found |= value
        elif value not in ("", 0, False, None, {}):
            found[key] = value
    return found


def _value(kind: str, raw: Any) -> Any:
    match kind.rpartition(".")[2]:
        case "string":
            return bytes(raw).decode()
        case "bytes":
            return base64.b64encode(raw).decode()
        case "bool":
            return bool(raw)
        case "int32" | "int64":
            return raw - (1 << 64) if raw >= 1 << 63 else raw
        case "Quantity" | "FieldsV1" | "RawExtension" as what:
            text = bytes(dict(_fields(raw)).get(1, b""))
            return text.decode() if what == "Quantity" else json.loads(text or b"null")
        case "Time" | "MicroTime" as what:
            moment = dict(_fields(raw))
            if not moment.get(1):
                return None
            then = datetime.fromtimestamp(moment[1], UTC).strftime("%Y-%m-%dT%H:%M:%S")
            return f"{then}.{moment.get(2, 0) // 1000:06}Z" if what == "MicroTime" else f"{then}Z"
        case "IntOrString":
            parts = dict(_fields(raw))
            return bytes(parts.get(3, b"")).decode() if parts.get(0) or parts.get(1) else parts.get(2, 0)
    return _message(kind, raw)
