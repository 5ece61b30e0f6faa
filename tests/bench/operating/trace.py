"""How many functions and modules of ours run."""

import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

import gpusharing


class Trace:
    """Of this thread, while it lasts. Functions have names: lambdas and comprehensions are parts of one."""

    def __init__(self) -> None:
        self._seen: set[CodeType] = set()

    def __enter__(self) -> Self:
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self._seen.add(frame.f_code)

    @property
    def functions(self) -> int:
        return len(self._ours())

    @property
    def modules(self) -> int:
        return len({code.co_filename for code in self._ours()})

    def _ours(self) -> list[CodeType]:
        return [code for code in self._seen if code.co_filename.startswith(_PACKAGE) and code.co_name[0] != "<"]


_PACKAGE = str(Path(gpusharing.__file__).parent)
