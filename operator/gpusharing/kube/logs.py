"""Logs of both programs, one event per line: structlog's and those of libraries that use the standard library's."""

import logging
import sys
from collections.abc import Sequence
from typing import Literal, get_args

import structlog
from structlog.typing import Processor

Format = Literal["json", "console"]
FORMATS: tuple[str, ...] = get_args(Format)


def configure(fmt: str, level: str = "info") -> None:
    """From now on everything is written to stderr, in this format and from this level on."""
    shared: Sequence[Processor] = (
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    )
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *_rendering(fmt),
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)


def _rendering(fmt: str) -> Sequence[Processor]:
    if fmt == "console":
        return (structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),)
    return (structlog.processors.format_exc_info, structlog.processors.JSONRenderer(sort_keys=True))
