"""With which number a command ends. docs/explain.md lists them."""

from typing import Final

OK: Final = 0
"""All is well; a change that `plan` shows is well, too."""
FAILED: Final = 1
"""The command could not do its work: the API server, a file or an object is missing."""
USAGE: Final = 2
"""Wrong options: argparse's number."""
WAITS: Final = 3
"""`explain`: it waits, and may run later."""
NEVER: Final = 4
"""`explain`: it will not run before somebody changes something."""


class CommandError(Exception):
    """Ends a command with FAILED and this sentence."""
