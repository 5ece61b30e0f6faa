"""With which number a command ends. The page of each command lists its own."""

import argparse
import sys
from collections.abc import Callable
from typing import Final

from gpusharing.snapshots.file import SnapshotError

OK: Final = 0
"""All is well; a change that `plan` shows is well, too."""
FAILED: Final = 1
"""The command could not do its work: the API server, a file or an object is missing."""
USAGE: Final = 2
"""Wrong options: argparse's number."""
UNREADABLE: Final = 2
"""`test`: a file cannot be read, or says nothing that can be tried; FAILED is for what is not as expected."""
CHANGES: Final = 2
"""`plan --detailed-exitcode`: something changes."""
DISTURBS: Final = 3
"""`plan --detailed-exitcode`: that disturbs running work."""
WAITS: Final = 3
"""`explain`: it waits, and may run later."""
NEVER: Final = 4
"""`explain`: it will not run before somebody changes something."""
INTERRUPTED: Final = 130
"""`doctor`: by Ctrl-C or SIGTERM, after it removed its pods: as shells number it."""


class CommandError(Exception):
    """Ends a command with FAILED and this sentence."""


Run = Callable[[argparse.Namespace], int]


def reporting(run: Run) -> Run:
    """The command, which says what stopped it."""

    def reported(arguments: argparse.Namespace) -> int:
        try:
            return run(arguments)
        except (CommandError, SnapshotError) as error:
            print(f"error: {error}", file=sys.stderr)
            return FAILED

    return reported
