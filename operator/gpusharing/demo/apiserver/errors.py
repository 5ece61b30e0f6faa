"""Refusals in the words of kube-apiserver: Status objects, which clients read."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

_REASONS: Final = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed", 409: "Conflict",
    406: "NotAcceptable", 410: "Expired", 413: "RequestEntityTooLarge", 415: "UnsupportedMediaType", 422: "Invalid",
    501: "NotImplemented",
}  # fmt: skip


class StatusError(Exception):
    def __init__(
        self, code: int, message: str, *, reason: str | None = None, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = _REASONS[code] if reason is None else reason
        self.message = message
        self.details = details

    def body(self) -> dict[str, Any]:
        return {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
            **({"reason": self.reason} if self.reason else {}),
            **({"details": self.details} if self.details is not None else {}), "code": self.code,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cause:
    """What is wrong with one field."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def as_go(value: Any) -> str:
    """A value as messages show it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def required(field: str, detail: str = "") -> Cause:
    return Cause(field, "FieldValueRequired", "Required value" + (f": {detail}" if detail else ""))


def invalid_value(field: str, value: str, detail: str) -> Cause:
    """`value` as Go shows it."""
    return Cause(field, "FieldValueInvalid", f"Invalid value: {value}: {detail}")


def not_implemented(what: str) -> StatusError:
    return StatusError(501, f"{what} is not implemented by this embedded API server; use a real cluster")


def bad_request(message: str) -> StatusError:
    return StatusError(400, message)


def no_such_resource() -> StatusError:
    return StatusError(404, "the server could not find the requested resource", details={})


class NoSuchPathError(Exception):
    """Nothing is served there."""


def not_found(resource: str, name: str) -> StatusError:
    """`resource`: plural.group, or the plural alone."""
    return StatusError(404, f'{resource} "{name}" not found', details=_details(resource, name))


def already_exists(resource: str, name: str) -> StatusError:
    message = f'{resource} "{name}" already exists'
    return StatusError(409, message, reason="AlreadyExists", details=_details(resource, name))


def conflict(resource: str, name: str, why: str) -> StatusError:
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return StatusError(409, message, details=_details(resource, name))


def modified(resource: str, name: str) -> StatusError:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, name, why)


def forbidden(resource: str, name: str, why: str, causes: Sequence[Cause] = ()) -> StatusError:
    details = _details(resource, name)
    if causes:
        details["causes"] = _shown(causes)
    return StatusError(403, f'{resource} "{name}" is forbidden: {why}', details=details)


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> StatusError:
    known = list(dict.fromkeys(causes))
    texts = [str(cause) for cause in known]
    shown = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    named = f"{kind}.{group}" if group else kind
    details: dict[str, Any] = {**({"name": name} if name else {}), **({"group": group} if group else {}), "kind": kind}
    details["causes"] = _shown(known)
    return StatusError(422, f'{named} "{name}" is invalid: {shown}', details=details)


def too_old(version: int, oldest: int) -> StatusError:
    return StatusError(410, f"too old resource version: {version} ({oldest})")


def _shown(causes: Sequence[Cause]) -> list[dict[str, str]]:
    return [{"reason": one.reason, "message": one.message, "field": one.field} for one in causes]


def _details(resource: str, name: str) -> dict[str, Any]:
    plural, _, group = resource.partition(".")
    return {"name": name, **({"group": group} if group else {}), "kind": plural}
