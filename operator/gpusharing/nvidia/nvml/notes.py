"""What could not be found out about a GPU, so that the rest of it can be told."""

from collections.abc import Callable
from typing import TypeVar

from gpusharing.nvidia.errors import DriverDownError, GpuLostError, HardwareError, NotSupportedError

T = TypeVar("T")


class Notes:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def attempt(self, what: str, question: Callable[[], T], *, otherwise: T) -> T:
        """Not supported is an answer, too: `otherwise`."""
        try:
            return question()
        except NotSupportedError:
            return otherwise
        except (DriverDownError, GpuLostError):
            raise
        except HardwareError as error:
            self.texts.append(f"{what}: {error}")
            return otherwise
