"""TLS up to the page: certificates are renewed while it runs, and who does not greet keeps nobody waiting."""

import asyncio
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from gpusharing.cli.exits import CommandError
from gpusharing.cli.ui_server.certificate import Certificate
from harness.certificates import CertificateAuthority
from harness.eventually import PATIENCE
from ui.fleets import example
from ui.test_viewers import GET, until
from ui.visiting import HOST, Open, People, open_to


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    found = CertificateAuthority(tmp_path_factory.mktemp("pki") / "ca")
    asyncio.run(found.create())
    return found


def renew(authority: CertificateAuthority, directory: Path, name: str) -> None:
    made = asyncio.run(authority.server(name, f"DNS:{HOST}"))
    shutil.copy(made.key, directory / "tls.key")
    shutil.copy(made.certificate, directory / "tls.crt")


@pytest.fixture
def directory(authority: CertificateAuthority, tmp_path: Path) -> Path:
    renew(authority, tmp_path, "first")
    return tmp_path


@pytest.fixture
def site(directory: Path) -> Iterator[Open]:
    with open_to(People({"alice": example()}), tls=Certificate(directory).context) as found:
        yield found


def ask(site: Open, authority: CertificateAuthority) -> tuple[str, bytes]:
    """Whose certificate it is, and the answer."""
    context = ssl.create_default_context(cafile=authority.certificate)
    address = ("127.0.0.1", site.server.server_port)
    with (
        socket.create_connection(address, timeout=PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname=HOST) as connection,
    ):
        certificate = connection.getpeercert()
        connection.sendall(GET + b"Authorization: Bearer alice\r\n\r\n")
        found = b""
        while piece := connection.recv(65536):
            found += piece
    subject: Any = certificate["subject"] if certificate else ()
    [[(_, name)]] = subject
    return str(name), found


def test_certificates_are_renewed(site: Open, authority: CertificateAuthority, directory: Path) -> None:
    name, answer = ask(site, authority)
    assert (name, b"60 of 80 GiB" in answer) == ("first", True)
    # Half of it is there.
    (directory / "tls.crt").write_text("")
    assert ask(site, authority)[0] == "first"
    renew(authority, directory, "second")
    assert ask(site, authority)[0] == "second"


def test_who_does_not_greet_keeps_nobody_waiting(
    site: Open, authority: CertificateAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpusharing.ui.server._LONGEST_SILENCE", 0.2)
    with ExitStack() as stack:
        address = ("127.0.0.1", site.server.server_port)
        for _ in range(site.server.connections._value):
            stack.enter_context(socket.create_connection(address)).sendall(b"\x16\x03\x01")

        def is_answered() -> bool:
            with suppress(OSError):
                return ask(site, authority)[0] == "first"
            return False

        until(is_answered)


def test_without_tls_nothing_is_answered(site: Open) -> None:
    before = threading.active_count()
    with socket.create_connection(("127.0.0.1", site.server.server_port), timeout=PATIENCE) as connection:
        connection.sendall(GET + b"\r\n")
        answer = b""
        with suppress(OSError):
            answer = connection.recv(65536)
    assert b"HTTP" not in answer
    until(lambda: threading.active_count() <= before)


def test_a_directory_without_a_certificate(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=f"{tmp_path}: .*tls.crt"):
        Certificate(tmp_path)
