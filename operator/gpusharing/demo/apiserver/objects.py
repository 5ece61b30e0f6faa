"""Creates, changes and deletes objects, as kube-apiserver does: from a body to what is stored."""

import secrets
import uuid
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gpusharing.demo.apiserver import admission, builtin, definitions, ownership, patches, schemas, validation
from gpusharing.demo.apiserver.admission import Review, User
from gpusharing.demo.apiserver.errors import (
    StatusError,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    invalid_value,
    modified,
    not_found,
    required,
)
from gpusharing.demo.apiserver.garbage import FOREGROUND, NAMESPACES, ORPHAN, Garbage
from gpusharing.demo.apiserver.kinds import Kind, Kinds
from gpusharing.demo.apiserver.names import name_problem
from gpusharing.demo.apiserver.ownership import APPLY, UPDATE, Manager
from gpusharing.demo.apiserver.store import Store

Json = dict[str, Any]

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
# Only the API server writes these.
_KEPT: Final = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a write says beside the object."""

    user: User
    manager: str
    dry_run: bool = False
    validation: str = "Warn"
    force: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    kind: Kind
    namespace: str
    name: str
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    value: Json
    warnings: tuple[str, ...] = ()
    is_new: bool = False


class Objects:
    def __init__(self, store: Store, kinds: Kinds) -> None:
        self.store = store
        self.kinds = kinds
        self._garbage = Garbage(store, kinds, delete=self._delete_quietly, remove=self._remove)

    def get(self, place: Place) -> Json:
        value = self._find(place)
        if value is None:
            raise not_found(place.kind.resource, place.name)
        return value

    def _find(self, place: Place) -> Json | None:
        return self.store.get(place.kind.stored_as, place.name, place.namespace)

    def create(self, kind: Kind, namespace: str, body: Json, request: Request) -> Written:
        value = self._of_kind(kind, namespace, body, "")
        metadata = value["metadata"]
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + "".join(secrets.choice(_LETTERS) for _ in range(5))
        place = Place(kind, namespace, metadata.get("name", ""))
        if metadata.get("resourceVersion"):
            raise StatusError(500, "resourceVersion should not be set on objects to be created", reason="InternalError")
        value, warnings = self._cleaned(kind, value, request)
        now = _now()
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields"):
            value["metadata"].pop(name, None)
        value["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": now}
        if kind.has_generation:
            value["metadata"]["generation"] = 1
        if not kind.takes_status_at_creation:
            value.pop("status", None)
        if (status := builtin.status_of_new(kind)) is not None:
            value["status"] = status
        value = self._defaulted(kind, value, is_new=True)
        self._check_namespace(place)
        warnings += self._checked(place, value, None, request)
        if self._find(place) is not None:
            raise already_exists(kind.resource, place.name)
        value = ownership.updated(kind.schema, None, value, Manager(request.manager, UPDATE, kind.group_version), now)
        return self._store(place, value, None, request, warnings, is_new=True)

    def _check_namespace(self, place: Place) -> None:
        if not place.kind.namespaced:
            return
        about = self.store.get(NAMESPACES, place.namespace)
        if about is None:
            raise not_found("namespaces", place.namespace)
        if "deletionTimestamp" in about["metadata"]:
            why = (
                f"unable to create new content in namespace {place.namespace} because it is being terminated"
            )
            raise forbidden(place.kind.resource, place.name, why)

    def replace(self, place: Place, body: Json, request: Request) -> Written:
        value = self._of_kind(place.kind, place.namespace, body, place.name)
        before = self._find(place)
        if before is None:
            raise not_found(place.kind.resource, place.name)
        value, warnings = self._cleaned(place.kind, value, request)
        manager = Manager(request.manager, UPDATE, place.kind.group_version, place.subresource)
        return self._update(place, before, value, request, manager, warnings)

    def patch(self, place: Place, content_type: str, patch: Any, request: Request) -> Written:
        if content_type == APPLY_PATCH:
            return self._apply(place, patch, request)
        before = self.get(place)
        shown = deepcopy(builtin.served(place.kind, before))
        match content_type:
            case "application/json-patch+json":
                value = patches.json_patch(shown, patch)
            case "application/merge-patch+json":
                value = patches.merge_patch(shown, patch)
            case "application/strategic-merge-patch+json" if not place.kind.is_custom:
                value = patches.strategic_merge_patch(place.kind.schema, shown, patch)
            case _:
                raise StatusError(415, _PATCH_TYPES.format(content_type))
        value, warnings = self._cleaned(place.kind, self._of_kind(place.kind, place.namespace, value, place.name), request)
        manager = Manager(request.manager, UPDATE, place.kind.group_version, place.subresource)
        return self._update(place, before, value, request, manager, warnings)

    def _apply(self, place: Place, body: Json, request: Request) -> Written:
        config = self._of_kind(place.kind, place.namespace, body, place.name)
        if config["metadata"].get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        config, warnings = self._cleaned(place.kind, config, request)
        before = self._find(place)
        if before is not None and (version := config["metadata"].get("resourceVersion")):
            if version != before["metadata"]["resourceVersion"]:
                raise modified(place.kind.resource, place.name)
        if before is not None and (uid := config["metadata"].get("uid")) not in {None, before["metadata"]["uid"]}:
            raise conflict(place.kind.resource, place.name, _other_uid(uid, before["metadata"]["uid"]))
        if before is None and place.subresource:
            raise not_found(place.kind.resource, place.name)
        manager = Manager(request.manager, APPLY, place.kind.group_version, place.subresource)
        now = _now()
        value = ownership.applied(place.kind.schema, before, config, manager, now, force=request.force)
        if before is not None:
            return self._update(place, before, value, request, None, warnings)
        metadata = value["metadata"]
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": now}
        if place.kind.has_generation:
            metadata["generation"] = 1
        if not place.kind.takes_status_at_creation:
            value.pop("status", None)
        if (status := builtin.status_of_new(place.kind)) is not None:
            value["status"] = status
        value = self._defaulted(place.kind, value, is_new=True)
        self._check_namespace(place)
        warnings += self._checked(place, value, None, request)
        return self._store(place, value, None, request, warnings, is_new=True)

    def _update(
        self, place: Place, before: Json, value: Json, request: Request, manager: Manager | None, warnings: list[str]
    ) -> Written:
        """`manager`: None: the fields are managed already."""
        kind, old = place.kind, before["metadata"]
        version = value["metadata"].get("resourceVersion")
        if version and version != old["resourceVersion"]:
            raise modified(kind.resource, place.name)
        if (uid := value["metadata"].get("uid")) and uid != old["uid"]:
            raise conflict(kind.resource, place.name, _other_uid(uid, old["uid"]))
        metadata = dict(value["metadata"])
        if "managedFields" not in metadata and "managedFields" in old and manager is not None:
            metadata["managedFields"] = old["managedFields"]
        for name in _KEPT:
            metadata.pop(name, None)
            if name in old:
                metadata[name] = old[name]
        value = {**value, "metadata": metadata | {"resourceVersion": old["resourceVersion"]}}
        if place.subresource == "status":
            mine = {"managedFields": metadata["managedFields"]} if "managedFields" in metadata else {}
            kept = old if kind.is_custom else _labelled(old, metadata)
            value = {**before, "status": value.get("status", {}), "metadata": {**kept, **mine}}
        elif "status" in kind.subresources:
            value = {**value}
            value.pop("status", None)
            if "status" in before:
                value["status"] = before["status"]
        value = self._defaulted(kind, value, is_new=False)
        if kind.has_generation and _has_changed(kind, before, value):
            value["metadata"]["generation"] = old.get("generation", 0) + 1
        warnings += self._checked(place, value, before, request)
        if manager is not None:
            value = ownership.updated(kind.schema, before, value, manager, _now())
        if _is_same(before, value):
            return Written(before, tuple(warnings))
        return self._store(place, value, before, request, warnings)

    def _of_kind(self, kind: Kind, namespace: str, body: Any, name: str) -> Json:
        """A copy, as it is stored, after it was compared with where it is written to."""
        if not isinstance(body, dict):
            raise bad_request("the body of the request is not an object")
        body = deepcopy(body)
        said = body.setdefault("apiVersion", kind.group_version), body.setdefault("kind", kind.kind)
        if said != (kind.group_version, kind.kind):
            raise bad_request(
                f'{said[1]} in version "{said[0].rpartition("/")[2]}" cannot be handled as a {kind.kind}: expected '
                f"{kind.group_version} {kind.kind}"
            )
        metadata = body["metadata"] = dict(body.get("metadata") or {})
        if name and metadata.setdefault("name", name) != name:
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
            )
        if not kind.namespaced:
            metadata.pop("namespace", None)
        elif metadata.setdefault("namespace", namespace) != namespace:
            if not metadata["namespace"]:
                metadata["namespace"] = namespace
            else:
                raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        return body

    def _cleaned(self, kind: Kind, value: Json, request: Request) -> tuple[Json, list[str]]:
        value, unknown = schemas.pruned(kind.schema, value)
        warnings = [f'unknown field "{path}"' for path in sorted(unknown)]
        if warnings and request.validation == "Strict":
            raise bad_request(f"{kind.kind} in version \"{kind.version}\" cannot be handled as a {kind.kind}: strict decoding error: {', '.join(warnings)}")
        return builtin.stored(kind, value), warnings if request.validation == "Warn" else []

    def _defaulted(self, kind: Kind, value: Json, *, is_new: bool) -> Json:
        if kind.is_custom:
            return schemas.with_defaults(kind.schema, value)
        if kind.stored_as == definitions.CRDS:
            return definitions.established(definitions.with_defaults(value), value["metadata"]["creationTimestamp"])
        return builtin.with_defaults(kind, value, is_new=is_new)

    def _checked(self, place: Place, value: Json, before: Json | None, request: Request) -> list[str]:
        """Warnings. Raises StatusError."""
        kind, metadata = place.kind, value["metadata"]
        causes = []
        if not place.name:
            causes.append(required("metadata.name", "name or generateName is required"))
        elif before is None and (problem := name_problem(kind, place.name)):
            causes.append(invalid_value("metadata.name", f'"{place.name}"', problem))
        if kind.is_custom:
            causes += validation.causes(kind.schema, value, before)
        else:
            shown = builtin.served(kind, value)
            causes += list(builtin.problems(kind, shown))
            if kind.stored_as == definitions.CRDS:
                causes += list(definitions.problems(value))
            elif kind.stored_as == admission.POLICIES:
                causes += list(admission.problems(value))
        if before is not None and "deletionTimestamp" in before["metadata"]:
            added = set(metadata.get("finalizers") or ()) - set(before["metadata"].get("finalizers") or ())
            if added:
                why = f"Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {sorted(added)}"
                causes.append(type(required(""))("metadata.finalizers", "FieldValueForbidden", why))
        if causes:
            raise invalid(kind.group, kind.kind, place.name, causes)
        return self.admitted(place, "UPDATE" if before is not None else "CREATE", value, before, request)

    def admitted(self, place: Place, operation: str, value: Json | None, before: Json | None, request: Request) -> list[str]:
        bindings = self.store.all(admission.BINDINGS)
        if not bindings:
            return []
        policies = {one["metadata"]["name"]: one for one in self.store.all(admission.POLICIES)}
        review = Review(
            operation=operation, kind=place.kind, subresource=place.subresource, name=place.name,
            namespace=place.namespace, value=value and builtin.served(place.kind, value),
            before=before and builtin.served(place.kind, before),
            namespace_object=self.store.get(NAMESPACES, place.namespace), user=request.user, dry_run=request.dry_run,
        )  # fmt: skip
        return admission.admit(review, policies, bindings)

    def _store(
        self, place: Place, value: Json, before: Json | None, request: Request, warnings: list[str], *, is_new: bool = False
    ) -> Written:
        if request.dry_run:
            return Written(value, tuple(warnings), is_new)
        if "deletionTimestamp" in value["metadata"] and not _is_held(place.kind, value):
            return Written(self._remove(place.kind, value), tuple(warnings))
        value = self.store.put(place.kind.stored_as, value)
        if place.kind.stored_as == definitions.CRDS:
            self.kinds.replace_custom(value["spec"]["group"], value["spec"]["names"]["plural"], definitions.kinds_of(value))
        if place.kind.stored_as == NAMESPACES and is_new:
            self.fill_namespace(place.name)
        self._garbage.after_write(place.kind, value)
        return Written(value, tuple(warnings), is_new)

    def fill_namespace(self, name: str) -> None:
        """As the controllers of a cluster do."""
        account = self.kinds.find("", "v1", "serviceaccounts")
        if account is not None:
            self.create(account, name, {"metadata": {"name": "default"}}, SYSTEM)

    def bind(self, place: Place, node: str, request: Request) -> None:
        """As the scheduler does."""
        before = self.get(place)
        if before["spec"].get("nodeName"):
            why = f"pod {place.name} is already assigned to node \"{before['spec']['nodeName']}\""
            raise conflict("pods/binding", place.name, why)
        status = dict(before.get("status") or {})
        others = [one for one in status.get("conditions") or () if one["type"] != "PodScheduled"]
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": _now(), "lastProbeTime": None}
        status["conditions"] = [*others, scheduled]
        value = {**before, "metadata": dict(before["metadata"]), "spec": {**before["spec"], "nodeName": node}, "status": status}
        self._store(place, value, before, request, [])

    def delete(self, place: Place, options: Mapping[str, Any], request: Request) -> tuple[Json, bool]:
        """The object, and whether it has gone."""
        value = self.get(place)
        kind, metadata = place.kind, dict(value["metadata"])
        self._check_preconditions(place, metadata, options.get("preconditions") or {})
        self.admitted(place, "DELETE", None, value, request)
        if request.dry_run:
            return value, True
        finalizers = list(metadata.get("finalizers") or ())
        policy = options.get("propagationPolicy") or ("Orphan" if options.get("orphanDependents") else "Background")
        for name, wanted in ((FOREGROUND, policy == "Foreground"), (ORPHAN, policy == "Orphan")):
            if wanted and name not in finalizers and self._garbage.dependents(metadata["uid"]):
                finalizers.append(name)
        if finalizers:
            metadata["finalizers"] = finalizers
        grace = _grace(kind, value, options)
        held = {**value, "metadata": metadata}
        if kind.stored_as == definitions.CRDS:
            self._delete_all_of(value, request)
        if not grace and not _is_held(kind, held):
            return self._remove(kind, value), True
        if "deletionTimestamp" not in metadata:
            until = datetime.now(UTC) + timedelta(seconds=grace)
            metadata["deletionTimestamp"] = _shown(until)
            metadata["deletionGracePeriodSeconds"] = grace
            if kind.has_generation:
                metadata["generation"] = metadata.get("generation", 0) + 1
            if kind.stored_as == NAMESPACES:
                held = {**held, "status": {**(value.get("status") or {}), "phase": "Terminating"}}
            self.store.put(kind.stored_as, held)
        self._garbage.after_write(kind, held)
        still = self._find(place)
        return still or held, still is None

    def _check_preconditions(self, place: Place, metadata: Json, wanted: Mapping[str, Any]) -> None:
        for name, said in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            if wanted.get(name) not in {None, metadata[name]}:
                why = f"the {said} in the precondition ({wanted[name]}) does not match the {said} in record ({metadata[name]}). The object might have been deleted and then recreated"
                raise conflict(place.kind.resource, place.name, why)

    def _delete_all_of(self, definition: Json, request: Request) -> None:
        group, plural = definition["spec"]["group"], definition["spec"]["names"]["plural"]
        kind = self.kinds.stored_as(group, plural)
        for value in self.store.all((group, plural)) if kind else ():
            self._delete_quietly(kind, value)  # type: ignore[arg-type]

    def _delete_quietly(self, kind: Kind, value: Json) -> None:
        metadata = value["metadata"]
        place = Place(kind, metadata.get("namespace", ""), metadata["name"])
        self.delete(place, {"gracePeriodSeconds": 0} if kind.plural == "pods" and not value["spec"].get("nodeName") else {}, SYSTEM)

    def _remove(self, kind: Kind, value: Json) -> Json:
        last = self.store.remove(kind.stored_as, value)
        if kind.stored_as == definitions.CRDS:
            self.kinds.replace_custom(value["spec"]["group"], value["spec"]["names"]["plural"], ())
        self._garbage.after_removal(last)
        return last


SYSTEM: Final = Request(user=User("system:apiserver", ("system:masters",)), manager="kube-controller-manager")


def _is_held(kind: Kind, value: Json) -> bool:
    finalizers = list(value["metadata"].get("finalizers") or ())
    if kind.stored_as == NAMESPACES:
        finalizers += (value.get("spec") or {}).get("finalizers") or ()
    return bool(finalizers)


def _grace(kind: Kind, value: Json, options: Mapping[str, Any]) -> int:
    """Seconds that somebody else, who removes it in the end, has."""
    if kind.resource != "pods" or not value["spec"].get("nodeName"):
        return 0
    if (value.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
        return 0
    asked = options.get("gracePeriodSeconds")
    return int(value["spec"].get("terminationGracePeriodSeconds", 30) if asked is None else asked)


def _labelled(old: Json, new: Json) -> Json:
    """Writers of the status of Kubernetes' own kinds may change labels and annotations as well."""
    kept = {name: part for name, part in old.items() if name not in {"labels", "annotations"}}
    return kept | {name: new[name] for name in ("labels", "annotations") if name in new}


def _has_changed(kind: Kind, before: Json, after: Json) -> bool:
    ignored = {"metadata", "status"} if "status" in kind.subresources or not kind.is_custom else {"metadata"}
    return _without(before, ignored) != _without(after, ignored)


def _without(value: Json, names: set[str]) -> Json:
    return {name: part for name, part in value.items() if name not in names}


def _is_same(before: Json, after: Json) -> bool:
    """Whether a write changes nothing; times of managers do not count."""
    if _without(before, {"metadata"}) != _without(after, {"metadata"}):
        return False
    old, new = before["metadata"], after["metadata"]
    if _without(old, {"managedFields"}) != _without(new, {"managedFields"}):
        return False
    return _timeless(old) == _timeless(new)


def _timeless(metadata: Json) -> list[Json]:
    return [{name: part for name, part in one.items() if name != "time"} for one in metadata.get("managedFields") or ()]


def _other_uid(said: str, known: str) -> str:
    return f"Precondition failed: UID in precondition: {said}, UID in object meta: {known}"


_PATCH_TYPES: Final = (
    "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, "
    "application/merge-patch+json, application/apply-patch+yaml, application/apply-patch+cbor"
)


def _now() -> str:
    return _shown(datetime.now(UTC))


def _shown(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
