"""Who may ask: people and programs for whom this server has written a kubeconfig. None of them is kept from anything."""

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gpusharing.demo.apiserver.admission import User
from gpusharing.demo.apiserver.errors import StatusError

_PREFIX: Final = "/as/"


class Users:
    """A token says who asks. kubectl sends none over plain HTTP, so it stands in the address as well."""

    def __init__(self) -> None:
        self._by_token: dict[str, User] = {}

    def add(self, user: User) -> str:
        """Gives the token."""
        token = secrets.token_urlsafe(24)
        self._by_token[token] = user
        return token

    def of_request(self, path: str, authorization: str) -> tuple[str, User]:
        """The path in the API, and who asks. Raises StatusError."""
        kind, _, token = authorization.partition(" ")
        if path.startswith(_PREFIX):
            in_path, slash, rest = path.removeprefix(_PREFIX).partition("/")
            path = slash + rest
            token = token if kind.lower() == "bearer" else in_path
        user = self._by_token.get(token)
        if user is None:
            raise StatusError(401, "Unauthorized")
        return path, user


def write_kubeconfig(path: Path, *, url: str, token: str, user: User) -> Path:
    """For kubectl, and for all who read kubeconfigs. Only its owner can read it."""
    content: Mapping[str, object] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "gpusharing-demo", "cluster": {"server": f"{url}{_PREFIX}{token}"}}],
        "users": [{"name": user.name, "user": {"token": token}}],
        "contexts": [{"name": "gpusharing-demo", "context": {"cluster": "gpusharing-demo", "user": user.name}}],
        "current-context": "gpusharing-demo",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(content, indent=2))
    return path
