"""Compiles our hook: `python -m gpusharing.agent.walls.build OUTPUT`. CC chooses the compiler, also a cross compiler.

For the image and for tests. On a node there is neither a compiler nor a need for one.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

SOURCES: Final = Path(__file__).parent / "csrc"
_COMPILE: Final = ("-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror")
# The host may have another C library than the image, or none.
STATIC: Final = ("-static",)


def build(output: Path, *, flags: Sequence[str] = STATIC) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    aside = output.with_name(f".{output.name}.new")
    subprocess.run(
        [os.environ.get("CC", "cc"), *_COMPILE, *flags, "-o", aside, *sorted(SOURCES.glob("*.c"))], check=True
    )
    aside.replace(output)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
