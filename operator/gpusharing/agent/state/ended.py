"""Claims that were unprepared before it was known what the state has lost.

What the API says of them is older. The next agent must know that, too, if this one is killed before the state is
recovered. A mark is an empty file that is named after the claim's uid: nothing in it can be damaged.
"""

from collections.abc import Set as AbstractSet
from pathlib import Path

from gpusharing.agent.state import files


class EndedClaims:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        files.remove_leftovers(directory)
        self._uids = {path.name for path in directory.glob("*")}

    @property
    def uids(self) -> AbstractSet[str]:
        return self._uids

    def add(self, uid: str, *, for_next_agent: bool) -> None:
        if for_next_agent:
            self._directory.mkdir(exist_ok=True)
            files.write_atomically(self._directory / uid, b"")
        self._uids.add(uid)

    def forget(self) -> None:
        """All: the state is recovered."""
        files.remove(self._directory)
        self._uids.clear()
