"""A certificate authority of a cluster's own, made with the openssl program."""

from dataclasses import dataclass
from pathlib import Path

from harness.commands import run
from harness.system import system_program

# Without a file of ours, the distribution's would add extensions of its own.
_CONFIGURATION = "[req]\ndistinguished_name = name\nstring_mask = utf8only\n[name]\n"


@dataclass(frozen=True)
class Certificate:
    certificate: Path
    key: Path


class CertificateAuthority:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._own = Certificate(directory / "ca.crt", directory / "ca.key")

    @property
    def certificate(self) -> Path:
        return self._own.certificate

    @property
    def key(self) -> Path:
        return self._own.key

    async def create(self) -> None:
        self._directory.mkdir(mode=0o700)
        (self._directory / "openssl.cnf").write_text(_CONFIGURATION)
        await self._request(
            self._own, "/CN=ca", "basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,digitalSignature"
        )

    async def client(self, user: str, *groups: str) -> Certificate:
        """For a user of the API server; an organization is a group there."""
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={user}"
        return await self._sign(user, subject, "extendedKeyUsage=clientAuth")

    async def server(self, name: str, *subject_alternative_names: str) -> Certificate:
        return await self._sign(
            name,
            f"/CN={name}",
            "extendedKeyUsage=serverAuth",
            f"subjectAltName={','.join(subject_alternative_names)}",
        )

    async def _sign(self, name: str, subject: str, *extensions: str) -> Certificate:
        signed = Certificate(self._directory / f"{name}.crt", self._directory / f"{name}.key")
        await self._request(signed, subject, "basicConstraints=critical,CA:FALSE", *extensions, issuer=self._own)
        return signed

    async def _request(
        self, new: Certificate, subject: str, *extensions: str, issuer: Certificate | None = None
    ) -> None:
        by_issuer: list[str | Path] = ["-CA", issuer.certificate, "-CAkey", issuer.key] if issuer else []
        await _openssl(
            "req", "-x509", "-config", self._directory / "openssl.cnf",
            "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "365",
            "-keyout", new.key, "-out", new.certificate, "-subj", subject, *by_issuer,
            *(argument for extension in extensions for argument in ("-addext", extension)),
        )  # fmt: skip


async def signing_key(path: Path) -> None:
    """A key pair for the tokens of ServiceAccounts."""
    # The API server takes the private key for the public one too, but only in this older format.
    await _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path)


async def _openssl(*arguments: str | Path) -> None:
    await run([system_program("openssl", package="openssl"), *arguments])
