"""What holds of our hook (tests/agent/walls/test_hook.py) holds of the one for arm64, under an emulator."""

import os
from pathlib import Path

import pytest

from agent.walls.conftest import build_site, site
from agent.walls.test_hook import *  # noqa: F403 (its tests, with the hook of this file)
from gpusharing.agent.walls.build import build
from gpusharing.agent.walls.program import NAME
from harness.system import system_program
from image.built import EMULATOR, NEEDED

__all__ = ["build_site", "site"]

pytestmark = [pytest.mark.image]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    emulator = system_program(EMULATOR, package=NEEDED[EMULATOR])
    compiler = system_program("aarch64-linux-gnu-gcc", package=NEEDED["aarch64-linux-gnu-gcc"])
    directory = tmp_path_factory.mktemp("wall")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", os.fspath(compiler))
        build(directory / f"{NAME}.aarch64")
    output = directory / NAME
    output.write_text(f'#!/bin/sh\nexec {emulator} {directory / NAME}.aarch64 "$@"\n')
    output.chmod(0o755)
    return output
