import json
import subprocess
import sys

import pytest

PROGRAM = """
import logging, structlog, warnings
from gpusharing.kube import logs
early = structlog.get_logger("early")
logs.configure({fmt!r}, "info")
early.info("made before it was configured", number=1)
logging.getLogger("kopf").info("from a library: %s", "argument")
logging.getLogger("kopf").debug("too detailed")
structlog.get_logger("ours").debug("too detailed")
warnings.warn("a warning")
try:
    raise ValueError("two\\nlines")
except ValueError:
    structlog.get_logger("ours").exception("failed", object="n1")
"""


def written(fmt: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(fmt=fmt)], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_one_json_object_per_line_whoever_logs() -> None:
    first, library, warning, failed = (json.loads(line) for line in written("json"))
    assert first == {
        "event": "made before it was configured",
        "level": "info",
        "logger": "early",
        "number": 1,
        "timestamp": first["timestamp"],
    }
    assert (library["event"], library["logger"]) == ("from a library: argument", "kopf")
    assert "a warning" in warning["event"]
    assert failed["object"] == "n1"
    assert "ValueError: two\nlines" in failed["exception"]


@pytest.mark.parametrize("expected", ["made before it was configured", "from a library: argument", "object=n1"])
def test_console(expected: str) -> None:
    assert expected in "\n".join(written("console"))
