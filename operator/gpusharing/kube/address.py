"""Where a program of ours listens."""

import argparse
import re
from typing import Final, NamedTuple

_PORT: Final = re.compile("[0-9]{1,5}")
_LAST_PORT: Final = 65_535


class Address(NamedTuple):
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """An argument of a command line."""
        host, colon, port = text.rpartition(":")
        if not colon or not _PORT.fullmatch(port) or int(port) > _LAST_PORT:
            raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, such as 0.0.0.0:8080")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))
