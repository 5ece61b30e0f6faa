#!/usr/bin/env python3
"""The command line with its packages, as a plugin of kubectl (`kubectl-gpusharing` in archives of tools/krew.py).

Old Pythons read this too, to say that they are too old.
"""

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

PACKAGES = Path(__file__).resolve().parent / "packages"  # krew makes a link to this file
COMPILED = PACKAGES / "pydantic_core"

if not (COMPILED / f"_pydantic_core{EXTENSION_SUFFIXES[0]}").exists():
    tags = {file.name.split("-")[1] for file in COMPILED.glob("_pydantic_core.cpython-*")}
    minors = " or ".join(f"{tag[0]}.{tag[1:]}" for tag in sorted(tags))
    sys.stderr.write(
        f"gpusharing: {sys.executable} is Python {sys.version.split()[0]}; needed is CPython {minors}: "
        "install one, and put its python3 first in PATH\n"
    )
    sys.exit(2)

sys.path.insert(0, str(PACKAGES))

from gpusharing.cli.main import main  # noqa: E402 - it is found only now

main()
