"""A certificate for 127.0.0.1, made where neither OpenSSL's command nor a library for certificates is installed.

It is its own authority, and only kubeconfigs of its server name it. kubectl sends tokens over TLS alone.
"""

import base64
import hashlib
import secrets
from datetime import UTC, datetime, timedelta
from typing import Final

# The curve P-256: y² = x³ - 3x + b over the numbers below P, and a point of order N.
_P: Final = 2**256 - 2**224 + 2**192 + 2**96 - 1
_N: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_G: Final = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
_Point = tuple[int, int] | None

_INTEGER, _BITS, _OCTETS, _OID, _UTF8, _TIME, _SEQUENCE, _SET = 0x02, 0x03, 0x04, 0x06, 0x0C, 0x17, 0x30, 0x31
_EC_KEY: Final = "2a8648ce3d0201"
_P256: Final = "2a8648ce3d030107"
_ECDSA_SHA256: Final = "2a8648ce3d040302"
_COMMON_NAME: Final = "550403"
_TRUE: Final = b"\x01\x01\xff"
_VALID: Final = timedelta(days=365)


def certificate_and_key() -> tuple[str, str]:
    """Both as PEM."""
    secret = secrets.randbelow(_N - 1) + 1
    public = _public(secret)
    signed = _to_be_signed(public)
    algorithm = _tlv(_SEQUENCE, _oid(_ECDSA_SHA256))
    certificate = _tlv(_SEQUENCE, signed, algorithm, _bits(_signature(secret, signed)))
    key = _tlv(
        _SEQUENCE,
        _integer(1),
        _tlv(_OCTETS, secret.to_bytes(32, "big")),
        _tlv(0xA0, _oid(_P256)),
        _tlv(0xA1, _bits(public)),
    )
    return _pem("CERTIFICATE", certificate), _pem("EC PRIVATE KEY", key)


def _to_be_signed(public: bytes) -> bytes:
    name = _tlv(_SEQUENCE, _tlv(_SET, _tlv(_SEQUENCE, _oid(_COMMON_NAME), _tlv(_UTF8, b"gpusharing-demo"))))
    now = datetime.now(UTC)
    valid = _tlv(_SEQUENCE, _time(now - timedelta(hours=1)), _time(now + _VALID))
    key = _tlv(_SEQUENCE, _tlv(_SEQUENCE, _oid(_EC_KEY), _oid(_P256)), _bits(public))
    digest = hashlib.sha256(public).digest()[:20]
    extensions = (
        _extension("551d13", _tlv(_SEQUENCE, _TRUE), is_critical=True),  # an authority
        _extension("551d0f", b"\x03\x02\x02\x84", is_critical=True),  # signs data and certificates
        _extension("551d0e", _tlv(_OCTETS, digest)),
        _extension("551d11", _tlv(_SEQUENCE, _tlv(0x82, b"localhost"), _tlv(0x87, bytes([127, 0, 0, 1])))),
    )
    return _tlv(
        _SEQUENCE,
        _tlv(0xA0, _integer(2)),
        _integer(secrets.randbits(63)),
        _tlv(_SEQUENCE, _oid(_ECDSA_SHA256)),
        name,
        valid,
        name,
        key,
        _tlv(0xA3, _tlv(_SEQUENCE, *extensions)),
    )


def _signature(secret: int, data: bytes) -> bytes:
    """ECDSA, as FIPS 186-5 has it."""
    digest = int.from_bytes(hashlib.sha256(data).digest(), "big")
    while True:
        nonce = secrets.randbelow(_N - 1) + 1
        point = _times(nonce, _G)
        r = point[0] % _N if point else 0
        s = pow(nonce, -1, _N) * (digest + r * secret) % _N
        if r and s:
            return _tlv(_SEQUENCE, _integer(r), _integer(s))


def _public(secret: int) -> bytes:
    point = _times(secret, _G)
    if point is None:
        raise AssertionError("unreachable")
    return b"\x04" + point[0].to_bytes(32, "big") + point[1].to_bytes(32, "big")


def _times(count: int, point: _Point) -> _Point:
    total: _Point = None
    while count:
        if count & 1:
            total = _sum(total, point)
        point = _sum(point, point)
        count >>= 1
    return total


def _sum(one: _Point, other: _Point) -> _Point:
    if one is None or other is None:
        return one or other
    (x, y), (u, v) = one, other
    if x == u and (y + v) % _P == 0:
        return None
    slope = (3 * x * x - 3) * pow(2 * y, -1, _P) if one == other else (v - y) * pow(u - x, -1, _P)
    w = (slope * slope - x - u) % _P
    return w, (slope * (x - w) - y) % _P


def _tlv(tag: int, *parts: bytes) -> bytes:
    """A value in DER, with its type and its length."""
    content = b"".join(parts)
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([0x82]) + size.to_bytes(2, "big")
    if 128 <= size < 256:
        length = bytes([0x81, size])
    return bytes([tag]) + length + content


def _integer(value: int) -> bytes:
    return _tlv(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _oid(encoded: str) -> bytes:
    return _tlv(_OID, bytes.fromhex(encoded))


def _bits(content: bytes) -> bytes:
    return _tlv(_BITS, b"\x00", content)


def _time(moment: datetime) -> bytes:
    return _tlv(_TIME, moment.strftime("%y%m%d%H%M%SZ").encode())


def _extension(oid: str, value: bytes, *, is_critical: bool = False) -> bytes:
    return _tlv(_SEQUENCE, _oid(oid), _TRUE if is_critical else b"", _tlv(_OCTETS, value))


def _pem(label: str, content: bytes) -> str:
    text = base64.encodebytes(content).decode()
    return f"-----BEGIN {label}-----\n{text}-----END {label}-----\n"
