"""Whether what an API server says is still of the history that was seen before.

Versions of objects only rise, until somebody puts etcd back to an older copy. Then "newer" means nothing any more, and
a watch from a version of the future is silent. A list is the one answer that tells: it is of the moment, so its version
is never below one that was seen before it was asked for. Writes do not tell (one that changes nothing returns the old
version), nor do bookmarks (the server may lag behind another one).
"""


class HistoryWentBackError(Exception):
    """What is known is of a history that the API server does not have any more: read everything anew."""


class History:
    """The highest version that was seen of each kind: etcd may be another one for some of them."""

    def __init__(self) -> None:
        self._highest: dict[str, int] = {}

    def highest(self, path: str) -> int:
        return self._highest.get(path, 0)

    def saw(self, path: str, version: str) -> None:
        self._highest[path] = max(self.highest(path), int(version or 0))

    def listed(self, path: str, version: str, *, after: int) -> None:
        """Takes in the version of a list. `after`: the highest that was seen before the list was asked for."""
        if int(version or 0) < after:
            # It is said once: from here on the new history counts.
            self._highest[path] = int(version or 0)
            raise HistoryWentBackError(
                f"the API server lists {path} as of version {version}, but version {after} was seen before: etcd was "
                "restored from an older copy"
            )
        self.saw(path, version)
