"""A server's certificate in files that are renewed while it runs."""

import ssl
import threading
from contextlib import suppress
from pathlib import Path

from gpusharing.cli.exits import CommandError


class Certificate:
    """Used by several threads."""

    def __init__(self, directory: Path) -> None:
        """As Secrets of type kubernetes.io/tls are mounted. Raises CommandError."""
        self._chain, self._key = directory / "tls.crt", directory / "tls.key"
        self._lock = threading.Lock()
        try:
            self._version = self._now()
            self._context = self._loaded()
        except OSError as error:
            raise CommandError(f"{directory}: {error}") from error

    def context(self) -> ssl.SSLContext:
        # Half of a renewal may be there: then the former one counts until the other half is.
        with self._lock, suppress(OSError):
            if (now := self._now()) != self._version:
                self._context = self._loaded()
                self._version = now
        return self._context

    def _now(self) -> tuple[int, ...]:
        return tuple(
            value for path in (self._chain, self._key) for value in (path.stat().st_ino, path.stat().st_mtime_ns)
        )

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._chain, self._key)
        return context
