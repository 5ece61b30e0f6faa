"""The file of `--snapshot`."""

from pathlib import Path

from gpusharing.cli.exits import CommandError
from gpusharing.snapshots import lines
from gpusharing.snapshots.file import SnapshotError
from gpusharing.snapshots.world import World


def read_snapshot(path: Path) -> World:
    """Raises CommandError."""
    try:
        return lines.loads(path.read_bytes())
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error
    except SnapshotError as error:
        raise CommandError(f"{path}: {error}") from error
