"""Of the wheel's build: where a C compiler is there, it compiles what is in C, so that `gpusharing demo` needs none.
Without one, the wheel is for every platform, and compiles when the simulation first runs.

The image's build leaves this out (HATCH_BUILD_NO_HOOKS): its operator and agent simulate nothing.
"""

import re
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_NEEDS: Final = re.compile(rb"\bGLIBC_(\d+)\.(\d+)")


class CompiledParts(BuildHookInterface[Any]):
    _scratch: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        # They need nothing but Python.
        sys.path.insert(0, str(Path(self.root, "operator")))
        from gpusharing.agent.walls import build as walls  # noqa: PLC0415
        from gpusharing.sim import SimError, build  # noqa: PLC0415

        self._scratch = Path(tempfile.mkdtemp())
        simulation, wall = self._scratch / "built", self._scratch / "gpusharing-wall"
        try:
            build.package(simulation)
            walls.build(wall)
        except SimError as error:
            self.app.display_warning(f"nothing in C is in this wheel: {error}")
            return
        build_data["force_include"] |= {
            str(simulation): "gpusharing/sim/built",
            str(wall): "gpusharing/agent/walls/gpusharing-wall",
        }
        build_data["pure_python"] = False
        linked = [file.read_bytes() for file in (*simulation.glob("*.so*"), simulation / build.TOOL)]
        build_data["tag"] = f"py3-none-{platform_tag(sysconfig.get_platform(), linked)}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if self._scratch:
            shutil.rmtree(self._scratch)


def platform_tag(platform: str, linked: Iterable[bytes]) -> str:
    """Of files that are linked to a C library: systems have it whose GNU C library is as new as the newest function."""
    system, _, machine = platform.partition("-")
    versions = {(int(major), int(minor)) for content in linked for major, minor in _NEEDS.findall(content)}
    if not versions:
        return f"{system}_{machine}"
    major, minor = max(versions)
    return f"many{system}_{major}_{minor}_{machine}"
