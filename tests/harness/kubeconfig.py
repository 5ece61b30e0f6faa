"""Kubeconfig files that hold everything, so that they can be copied anywhere."""

import base64
import json
from pathlib import Path

from harness.certificates import Certificate


def write_kubeconfig(path: Path, *, server: str, ca: Path, user: Certificate | str) -> Path:
    """`user` is a client certificate or a token."""
    credentials = (
        {"token": user}
        if isinstance(user, str)
        else {"client-certificate-data": _inline(user.certificate), "client-key-data": _inline(user.key)}
    )
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority-data": _inline(ca)}}],
        "users": [{"name": "test", "user": credentials}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(content, indent=2))
    return path


def _inline(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
