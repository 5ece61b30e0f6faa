"""JSON patches (RFC 6902), JSON merge patches (RFC 7386), and strategic merge patches of Kubernetes' own kinds."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpusharing.demo.apiserver.errors import StatusError, bad_request
from gpusharing.demo.apiserver.kinds import Schema, followed, items_of, part_of

_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"


_REJECTED: Final = "the server rejected our request due to an error in our request"


class _PathError(Exception):
    pass


def json_patch(value: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """Of a value of the caller's own, which may be changed. Raises StatusError."""
    try:
        for operation in operations:
            value = _apply(value, operation)
    except _PathError as error:
        raise StatusError(422, str(error)) from None
    except (KeyError, TypeError, AttributeError) as error:
        raise bad_request(f"error decoding patch: {error!r}") from None
    return value


def _apply(value: Any, operation: Mapping[str, Any]) -> Any:
    path = _tokens(operation["path"])
    match operation["op"]:
        case "test":
            if _look_up(value, path) != operation.get("value"):
                raise _PathError(_REJECTED)
            return value
        case "remove":
            _look_up(value, path)
            return _removed(value, path)
        case "add":
            return _added(value, path, operation["value"])
        case "replace":
            _look_up(value, path)
            return _added(_removed(value, path), path, operation["value"])
        case "copy" | "move" as what:
            source = _tokens(operation["from"])
            taken = _look_up(value, source)
            return _added(_removed(value, source) if what == "move" else value, path, taken)
        case other:
            raise _PathError(f"Unexpected kind: {other}")


def _tokens(path: str) -> list[str]:
    return [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]


def _look_up(value: Any, path: Sequence[str]) -> Any:
    for token in path:
        try:
            value = value[int(token)] if isinstance(value, list) else value[token]
        except (KeyError, IndexError, ValueError, TypeError):
            raise _PathError(_REJECTED) from None
    return value


def _removed(value: Any, path: Sequence[str]) -> Any:
    if not path:
        return None
    parent = _look_up(value, path[:-1])
    del parent[int(path[-1]) if isinstance(parent, list) else path[-1]]
    return value


def _added(value: Any, path: Sequence[str], new: Any) -> Any:
    if not path:
        return new
    parent = _look_up(value, path[:-1])
    if isinstance(parent, list):
        place = len(parent) if path[-1] == "-" else int(path[-1]) if path[-1].isdecimal() else -1
        if not 0 <= place <= len(parent):
            raise _PathError(_REJECTED)
        parent.insert(place, new)
    elif isinstance(parent, dict):
        parent[path[-1]] = new
    else:
        raise _PathError(_REJECTED)
    return value


def merge_patch(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for name, part in patch.items():
        if part is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), part)
    return merged


def strategic_merge_patch(schema: Schema, value: Any, patch: Any) -> Any:
    """As a merge patch, but the schema says which lists are merged, and by which key."""
    if not isinstance(patch, dict):
        return patch
    match patch.get(_DIRECTIVE):
        case "replace":
            return {name: part for name, part in patch.items() if name != _DIRECTIVE}
        case "delete":
            return {}
    merged = dict(value) if isinstance(value, dict) else {}
    if _RETAIN_KEYS in patch:
        merged = {name: part for name, part in merged.items() if name in patch[_RETAIN_KEYS]}
    for name, part in patch.items():
        if name.startswith(_DELETE_FROM):
            field = name.removeprefix(_DELETE_FROM)
            merged[field] = [one for one in merged.get(field) or () if one not in part]
        elif part is None:
            merged.pop(name, None)
        elif not name.startswith("$"):
            below = part_of(schema, name) or {}
            order = patch.get(_ORDER + name)
            merged[name] = _merged_field(below, merged.get(name), part, order)
    return merged | _reordered(schema, merged, patch)


def _reordered(schema: Schema, merged: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Lists of which the patch says the order, and no more."""
    orders = {name.removeprefix(_ORDER): order for name, order in patch.items() if name.startswith(_ORDER)}
    return {
        field: _ordered(merged[field], order, merged[field], (part_of(schema, field) or {}).get(_KEY))
        for field, order in orders.items()
        if field not in patch and isinstance(merged.get(field), list)
    }


_KEY: Final = "x-kubernetes-patch-merge-key"


def _merged_field(schema: Schema, value: Any, patch: Any, order: Sequence[Any] | None) -> Any:
    strategy = schema.get("x-kubernetes-patch-strategy", "").split(",")
    if isinstance(patch, dict):
        return strategic_merge_patch(followed(schema), value, patch)
    if not isinstance(patch, list) or "merge" not in strategy:
        return patch
    key = schema.get(_KEY)
    found = list(value or ())
    if key is None:
        found += [one for one in patch if one not in found]
        return _ordered(found, order or patch, value or (), None)
    if any(one.get(_DIRECTIVE) == "replace" and key not in one for one in patch):
        return [one for one in patch if _DIRECTIVE not in one]
    for one in patch:
        if key not in one:
            raise bad_request(f"map: {one} does not contain declared merge key: {key}")
        place = next((number for number, old in enumerate(found) if old.get(key) == one[key]), None)
        if one.get(_DIRECTIVE) == "delete":
            if place is not None:
                del found[place]
        elif place is None:
            found.append(strategic_merge_patch(items_of(schema), {}, one))
        else:
            found[place] = strategic_merge_patch(items_of(schema), found[place], one)
    return _ordered(found, order or patch, value or (), key)


def _ordered(values: list[Any], order: Sequence[Any], before: Sequence[Any], key: str | None) -> list[Any]:
    """What the patch orders stands so; the rest is put before that in front of which it stood."""

    def name(one: Any) -> Any:
        return one.get(key) if key else one

    wanted, stood = [name(one) for one in order], [name(one) for one in before]
    ordered = sorted((one for one in values if name(one) in wanted), key=lambda one: wanted.index(name(one)))
    rest = [one for one in values if name(one) not in wanted]
    found: list[Any] = []
    while ordered or rest:
        both = ordered and rest and {name(rest[0]), name(ordered[0])} <= {*stood}
        is_first = not ordered or (both and stood.index(name(rest[0])) < stood.index(name(ordered[0])))
        found.append((rest if is_first else ordered).pop(0))
    return found
