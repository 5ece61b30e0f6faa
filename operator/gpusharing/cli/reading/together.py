"""Several requests at a time, each with a name."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from gpusharing.cli.exits import CommandError
from gpusharing.cli.reading.client import Client, ReadError
from gpusharing.cli.reading.cluster import Ask, Found, read_list
from gpusharing.snapshots.world import CLAIMS, Json, Resource

_AT_ONCE = 16


class Together:
    """What is asked for is on its way at once; `results` waits for it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="ask")
        self._coming: dict[str, Future[Found]] = {}

    def ask(self, name: str, job: Callable[[], Found]) -> None:
        self._coming[name] = self._threads.submit(job)

    def list(self, name: str, ask: Ask) -> None:
        self.ask(name, lambda: read_list(self._client, ask))

    def some(self, resource: Resource, names: Sequence[str], namespace: str = "") -> None:
        """Single objects, as far as they exist and may be read."""
        self.each(resource, [(namespace, name) for name in names])

    def each(self, resource: Resource, keys: Sequence[tuple[str, str]]) -> None:
        """Likewise, each with its namespace."""

        def job() -> Found:
            found, unread = [], ""
            for namespace, name in keys:
                try:
                    found.append(self._client.get_json(resource.path(name=name, namespace=namespace)))
                except ReadError as error:
                    unread = unread if error.is_absent else error.message
            return Found(found, unread=unread)

        self.ask(resource.field, job)

    def what_may_be_named(self, namespace: str) -> None:
        """Whether the claims of all namespaces may be read, without reading them."""

        def job() -> Found:
            try:
                self._client.get(CLAIMS.path(), {"limit": "1"})
            except ReadError:
                return Found(only_namespace=namespace)
            return Found()

        self.ask("names", job)

    def results(self) -> Mapping[str, Found]:
        found = {name: one.result() for name, one in self._coming.items()}
        self._threads.shutdown()
        return found


def get(client: Client, resource: Resource, name: str, namespace: str = "") -> Json:
    """Raises CommandError if it does not exist, or may not be read."""
    try:
        found: Json = client.get_json(resource.path(name=name, namespace=namespace))
    except ReadError as error:
        where = f" in namespace {namespace}" if namespace else ""
        if error.is_absent:
            raise CommandError(f"there is no {resource.kind} {name}{where}") from error
        raise CommandError(error.message) from error
    return found


def find(client: Client, resource: Resource, name: str, namespace: str = "") -> Json | None:
    """None: it does not exist, or may not be read."""
    try:
        found: Json = client.get_json(resource.path(name=name, namespace=namespace))
    except ReadError:
        return None
    return found
