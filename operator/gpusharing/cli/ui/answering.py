"""What a page says when the API server does not answer."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from gpusharing.cli.exits import CommandError
from gpusharing.cli.reading.client import ReadError
from gpusharing.ui.picture import SourceError

P = ParamSpec("P")
T = TypeVar("T")


def answering(read: Callable[P, T]) -> Callable[P, T]:
    """It raises SourceError."""

    @wraps(read)
    def answered(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except (CommandError, ReadError) as error:
            raise SourceError(str(error)) from error

    return answered
