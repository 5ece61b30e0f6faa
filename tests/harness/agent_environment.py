"""The agent as a node has it: with the packages of its own requirement file and no others, and its manifest's
environment."""

import hashlib
import subprocess
import sys
from pathlib import Path

import yaml

from harness.cache import CACHE, one_at_a_time
from harness.progress import PROGRESS

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "requirements" / "agent.txt"
MANIFEST = ROOT / "manifests" / "base" / "agent.yaml"


def python() -> Path:
    """An interpreter that finds what the agent's image would hold, and this checkout's sources."""
    key = hashlib.sha256(REQUIREMENTS.read_bytes() + str(ROOT).encode() + sys.version.encode()).hexdigest()[:16]
    environment = CACHE / "agent" / key
    with one_at_a_time():
        if not environment.exists():
            PROGRESS.say("Installing the agent's packages")
            unfinished = environment.with_name(f".{key}")
            subprocess.run([sys.executable, "-m", "venv", "--clear", unfinished], check=True)
            pip: list[str | Path] = [
                unfinished / "bin" / "python",
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ]
            subprocess.run([*pip, "--require-hashes", "--requirement", REQUIREMENTS], check=True)
            (packages,) = unfinished.glob("lib/python*/site-packages")
            (packages / "gpusharing.pth").write_text(f"{ROOT / 'operator'}\n")
            unfinished.rename(environment)
    return environment / "bin" / "python"


def variables() -> dict[str, str]:
    """What the manifest sets, as far as it is the same on all nodes."""
    (container,) = yaml.safe_load(MANIFEST.read_text())["spec"]["template"]["spec"]["containers"]
    told = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
    # Modules are compiled when an image is built, not each time that a program starts.
    return {**told, "PYTHONDONTWRITEBYTECODE": ""}
