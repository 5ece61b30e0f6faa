"""What commands say of a cluster, and of its bundle."""

import io
import json
import re
import tarfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final

import pytest

from gpusharing.cli.main import main

_AGE: Final = re.compile(r"\b\d+ (?:s|min|h|d)\b")


def said(*arguments: str | Path) -> Any:
    """In JSON, whatever the exit code; ages are left out, which go on."""
    out = io.StringIO()
    status: object = None
    with redirect_stdout(out):
        try:
            main([*map(str, arguments), "-o", "json"])
        except SystemExit as ended:
            status = ended.code
    text = out.getvalue()
    assert text, f"{arguments}: nothing was printed, and {status} is the exit code"
    return status, json.loads(_AGE.sub("a while", text))


def written(path: Path, *arguments: str | Path) -> dict[str, str]:
    """The texts of a new bundle, by their names."""
    with redirect_stdout(io.StringIO()), pytest.raises(SystemExit) as ended:
        main(["bundle", "-f", str(path), *map(str, arguments)])
    assert ended.value.code == 0
    with tarfile.open(path) as found:
        return {
            one.name.partition("/")[2]: found.extractfile(one).read().decode()  # type: ignore[union-attr]
            for one in found
        }
