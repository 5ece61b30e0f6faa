"""Who may ask: those for whom this server has written a kubeconfig. None of them is kept from anything."""

import base64
import json
import secrets
from pathlib import Path

from gpusharing.demo.apiserver.admission import User
from gpusharing.demo.apiserver.errors import StatusError


class Users:
    """A token says who asks."""

    def __init__(self) -> None:
        self._by_token: dict[str, User] = {}

    def add(self, user: User) -> str:
        """Gives the token."""
        token = secrets.token_urlsafe(24)
        self._by_token[token] = user
        return token

    def of(self, authorization: str) -> User:
        """Raises StatusError."""
        kind, _, token = authorization.partition(" ")
        user = self._by_token.get(token) if kind.lower() == "bearer" else None
        if user is None:
            raise StatusError(401, "Unauthorized")
        return user


def write_kubeconfig(path: Path, *, url: str, certificate: str, token: str, user: User) -> Path:
    """For kubectl, and for all who read kubeconfigs. Only its owner can read it."""
    authority = base64.b64encode(certificate.encode()).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "gpusharing-demo", "cluster": {"server": url, "certificate-authority-data": authority}},
        ],
        "users": [{"name": user.name, "user": {"token": token}}],
        "contexts": [{"name": "gpusharing-demo", "context": {"cluster": "gpusharing-demo", "user": user.name}}],
        "current-context": "gpusharing-demo",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(content, indent=2))
    return path
