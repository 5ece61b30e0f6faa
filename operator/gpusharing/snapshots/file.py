"""A World in one file: `kind: Snapshot`, as JSON, or as YAML that people have edited."""

import json
from typing import Any, Final

from gpusharing.snapshots.world import RESOURCES, World

API_VERSION: Final = "gpusharing.dev/v1alpha1"
KIND: Final = "Snapshot"


class SnapshotError(Exception):
    """A file that is no snapshot. The message names the field."""


def to_json(world: World) -> dict[str, Any]:
    """Fields without objects are left out. Of metadata, what only the API server uses is left out, too."""
    lists = {one.field: [_lean(item) for item in world.of(one)] for one in RESOURCES if world.of(one)}
    return {**_head(world), "objects": lists}


def dumps(world: World) -> str:
    """One object a line, so that two snapshots can be compared. Objects that are lines are decoded one at a time."""
    lists = [
        f'    "{one.field}": [\n' + ",\n".join(f"      {_compact(_lean(item))}" for item in world.of(one)) + "\n    ]"
        for one in RESOURCES
        if world.of(one)
    ]
    head = "".join(f'  "{name}": {_compact(part)},\n' for name, part in _head(world).items())
    return f"{{\n{head}" + '  "objects": {\n' + ",\n".join(lists) + "\n  }\n}\n"


def _head(world: World) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "kubernetes": f"1.{world.minor}",
        "takenAt": world.taken_at,
        **({"unread": dict(world.unread)} if world.unread else {}),
        **({"onlyNamespace": dict(world.only_namespace)} if world.only_namespace else {}),
        **({"served": list(world.served)} if world.served else {}),
    }


def loads(text: str) -> World:
    """Raises SnapshotError."""
    return from_json(_parsed(text))


def from_json(value: Any) -> World:
    """Raises SnapshotError."""
    match value:
        case {"apiVersion": str(version), "kind": str(kind)} if (version, kind) == (API_VERSION, KIND):
            pass
        case _:
            raise SnapshotError(f"not a snapshot: apiVersion must be {API_VERSION}, and kind {KIND}")
    objects = {} if value.get("objects") is None else value["objects"]
    if not isinstance(objects, dict):
        raise SnapshotError("objects: not a map of lists")
    known = {one.field for one in RESOURCES}
    if unknown := sorted(objects.keys() - known):
        raise SnapshotError(f"objects.{unknown[0]}: unknown; known are {', '.join(sorted(known))}")
    for name, items in objects.items():
        if not isinstance(items, list) or not all(has_name(item) for item in items):
            raise SnapshotError(f"objects.{name}: not a list of objects with metadata.name")
    return World(
        minor=_minor(value.get("kubernetes")),
        taken_at=str(value.get("takenAt") or ""),
        unread=dict(value.get("unread") or {}),
        only_namespace=dict(value.get("onlyNamespace") or {}),
        served=tuple(str(one) for one in value.get("served") or ()),
        **objects,
    )


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise SnapshotError("nested too deeply") from error
    except ValueError:
        import yaml  # noqa: PLC0415 (most snapshots are JSON, and do without the parser)

        try:
            return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 (a safe one)
        except (yaml.YAMLError, RecursionError) as error:
            raise SnapshotError(f"neither JSON nor YAML: {error}") from error


def _minor(version: Any) -> int:
    match str(version).split("."):
        case ["1", minor] if minor.isdecimal():
            return int(minor)
        case _:
            raise SnapshotError(f'kubernetes: {version!r} is not a version such as "1.37"')


def has_name(item: Any) -> bool:
    match item:
        case {"metadata": {"name": str()}}:
            return True
        case _:
            return False


def _lean(item: Any) -> dict[str, Any]:
    metadata = {name: value for name, value in item["metadata"].items() if name not in {"managedFields", "selfLink"}}
    return {**item, "metadata": metadata}


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
