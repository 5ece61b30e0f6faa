"""Bearer tokens, as far as they concern us: the API server says whose they are."""

import base64
import hashlib
import json
import re
from typing import Final

LARGEST: Final = 16 * 1024
"""Characters."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_SERVICE_ACCOUNT: Final = re.compile(r"system:serviceaccount:([a-z0-9-]+):.*")
_DEFAULT: Final = "default"


class UnknownTokenError(Exception):
    """The API server does not take it, or not any more."""


def is_token(text: str) -> bool:
    """Whatever else comes in a header, the API server would ignore: the request would be nobody's."""
    return len(text) <= LARGEST and _TOKEN.fullmatch(text) is not None


def of_header(authorization: str) -> str | None:
    """None: it has another scheme, such as the password of a proxy."""
    scheme, _, rest = authorization.strip().partition(" ")
    return rest.strip() if scheme.lower() == "bearer" else None


def digest(text: str) -> bytes:
    """What is looked up by it takes as long for a wrong one as for one that is nearly right."""
    return hashlib.sha256(text.encode()).digest()


def expiry(token: str) -> float | None:
    """Seconds since 1970, as a JSON Web Token says it. It is not verified: the API server does that."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def namespace_of(name: str) -> str:
    """Which one a user means who names none."""
    found = _SERVICE_ACCOUNT.fullmatch(name)
    return found[1] if found else _DEFAULT
