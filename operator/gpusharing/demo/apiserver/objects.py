"""Creates, changes and deletes objects, as kube-apiserver does."""

import secrets
import uuid
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from gpusharing.demo.apiserver import admission, bodies, builtin, definitions, ownership, patches
from gpusharing.demo.apiserver.admission import Review, User
from gpusharing.demo.apiserver.errors import (
    Cause,
    StatusError,
    already_exists,
    as_go,
    bad_request,
    conflict,
    forbidden,
    invalid,
    invalid_value,
    modified,
    not_found,
)
from gpusharing.demo.apiserver.garbage import CLEANUP, FOREGROUND, NAMESPACES, ORPHAN, Garbage
from gpusharing.demo.apiserver.kinds import Kind, Kinds
from gpusharing.demo.apiserver.ownership import APPLY, UPDATE, Manager
from gpusharing.demo.apiserver.store import Store

Json = dict[str, Any]

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_WHAT_IT_CERTIFIES: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)
_OF_THE_SYSTEM: Final = frozenset({"default", "kube-system", "kube-public"})
# Only the API server writes these.
_KEPT: Final = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a write says beside the object."""

    user: User
    manager: str
    dry_run: bool = False
    field_validation: str = "Warn"
    force: bool = False


SYSTEM: Final = Request(user=User("system:apiserver", ("system:masters",)), manager="kube-controller-manager")


@dataclass(frozen=True, slots=True)
class Place:
    kind: Kind
    namespace: str
    name: str
    subresource: str = ""

    @classmethod
    def of(cls, kind: Kind, value: Mapping[str, Any]) -> "Place":
        return cls(kind, value["metadata"].get("namespace", ""), value["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class Written:
    value: Json
    warnings: tuple[str, ...] = ()
    is_new: bool = False


class Objects:
    def __init__(
        self, store: Store, kinds: Kinds, *, later: Callable[[Callable[[], None]], object], authority: str = ""
    ) -> None:
        """`later`: calls a function after the answer. `authority`: whom clients have to trust."""
        self._authority = authority
        self.store = store
        self.kinds = kinds
        self._garbage = Garbage(store, kinds, delete=self._delete_quietly, write=self._keep, later=later)

    def get(self, place: Place) -> Json:
        value = self._find(place)
        if value is None:
            raise not_found(place.kind.resource, place.name)
        return value

    def _find(self, place: Place) -> Json | None:
        return self.store.get(place.kind.stored_as, place.name, place.namespace)

    def create(self, kind: Kind, namespace: str, body: Json, request: Request) -> Written:
        value = bodies.read(kind, namespace, "", body)
        about = value["metadata"]
        if "name" not in about and "generateName" in about:
            about["name"] = about["generateName"] + "".join(secrets.choice(_LETTERS) for _ in range(5))
        if about.pop("resourceVersion", None):
            raise StatusError(500, "resourceVersion should not be set on objects to be created", reason="InternalError")
        about.pop("managedFields", None)
        value, warnings = bodies.cleaned(kind, value, request.field_validation)
        manager = Manager(request.manager, UPDATE, kind.group_version)
        return self._create(
            Place(kind, namespace, about.get("name", "")), value, request, warnings=warnings, manager=manager
        )

    def _create(
        self, place: Place, value: Json, request: Request, *, warnings: list[str], manager: Manager | None
    ) -> Written:
        """`manager`: None: the fields are managed already."""
        kind, now = place.kind, _now()
        value = bodies.of_new(kind, value, str(uuid.uuid4()), now)
        if kind.namespaced:
            self._check_namespace(place)
        bodies.check(kind, value, None)
        warnings = [*warnings, *self._admitted(place, "CREATE", value, None, request)]
        if self._find(place) is not None:
            raise already_exists(kind.resource, place.name)
        if manager is not None:
            value = ownership.updated(kind.schema, None, value, manager, now)
        if not request.dry_run:
            value = self._keep(kind, value)
            if kind.stored_as == NAMESPACES:
                self._fill_namespace(place.name)
        return Written(value, tuple(warnings), is_new=True)

    def _check_namespace(self, place: Place) -> None:
        about = self.store.get(NAMESPACES, place.namespace)
        if about is None:
            raise not_found("namespaces", place.namespace)
        if "deletionTimestamp" in about["metadata"]:
            why = f"unable to create new content in namespace {place.namespace} because it is being terminated"
            cause = Cause(
                "metadata.namespace", "NamespaceTerminating", f"namespace {place.namespace} is being terminated"
            )
            raise forbidden(place.kind.resource, place.name, why, [cause])

    def _fill_namespace(self, name: str) -> None:
        """As the controllers of a cluster do."""
        account, config_map = self.kinds.stored_as("", "serviceaccounts"), self.kinds.stored_as("", "configmaps")
        if account and config_map:
            self.create(account, name, {"metadata": {"name": "default"}}, SYSTEM)
            about = {"name": "kube-root-ca.crt", "annotations": {"kubernetes.io/description": _WHAT_IT_CERTIFIES}}
            self.create(config_map, name, {"metadata": about, "data": {"ca.crt": self._authority}}, SYSTEM)

    def replace(self, place: Place, body: Json, request: Request) -> Written:
        value = bodies.read(place.kind, place.namespace, place.name, body)
        before = self.get(place)
        if "resourceVersion" not in value["metadata"] and not place.kind.is_replaced_blindly:
            wrong = invalid_value("metadata.resourceVersion", "0", "must be specified for an update")
            raise invalid(place.kind.group, place.kind.plural, place.name, [wrong])
        if (uid := value["metadata"].get("uid")) and uid != before["metadata"]["uid"]:
            raise conflict(place.kind.resource, place.name, _another(place, uid, before["metadata"]["uid"]))
        return self._changed(place, before, value, request)

    def patch(self, place: Place, content_type: str, patch: Any, request: Request) -> Written:
        kind = place.kind
        if content_type == APPLY_PATCH:
            return self._apply(place, patch, request)
        types = [JSON_PATCH, MERGE_PATCH, *([] if kind.is_custom else [STRATEGIC_PATCH]), APPLY_PATCH]
        if content_type not in types:
            raise StatusError(415, f"{_PATCH_TYPES}{', '.join(types)}")
        before = self.get(place)
        shown = deepcopy(builtin.served(kind, before))
        if content_type == JSON_PATCH:
            value = patches.json_patch(shown, patch)
        elif content_type == MERGE_PATCH:
            value = patches.merge_patch(shown, patch)
        else:
            value = patches.strategic_merge_patch(kind.schema, shown, patch)
        bodies.check_patched(kind, value, request.field_validation)
        return self._changed(place, before, bodies.read(kind, place.namespace, place.name, value), request)

    def _changed(self, place: Place, before: Json, value: Json, request: Request) -> Written:
        value, warnings = bodies.cleaned(place.kind, value, request.field_validation)
        manager = Manager(request.manager, UPDATE, place.kind.group_version, place.subresource)
        return self._update(place, before, value, request, warnings=warnings, manager=manager)

    def _apply(self, place: Place, body: Json, request: Request) -> Written:
        kind = place.kind
        config = bodies.read(kind, place.namespace, place.name, body)
        if config["metadata"].get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        bodies.check_applied(kind, config)
        config, warnings = bodies.cleaned(kind, _at_door(place, config), request.field_validation)
        before = self._find(place)
        if before is None and place.subresource:
            raise not_found(kind.resource, place.name)
        if before is not None:
            self._check_identity(place, before, config)
        manager = Manager(request.manager, APPLY, kind.group_version, place.subresource)
        value = ownership.applied(kind.schema, before, config, manager, _now(), force=request.force)
        if before is None:
            return self._create(place, value, request, warnings=warnings, manager=None)
        return self._update(place, before, value, request, warnings=warnings, manager=None)

    def _check_identity(self, place: Place, before: Json, value: Json) -> None:
        """What the writer takes it to be."""
        said, known = value["metadata"], before["metadata"]
        if (version := said.get("resourceVersion")) and version != known["resourceVersion"]:
            raise modified(place.kind.resource, place.name)
        if (uid := said.get("uid")) and uid != known["uid"]:
            wrong = invalid_value("metadata.uid", as_go(uid), "field is immutable")
            raise invalid(place.kind.group, place.kind.kind, place.name, [wrong])

    def _update(
        self, place: Place, before: Json, value: Json, request: Request, *, warnings: list[str], manager: Manager | None
    ) -> Written:
        """`manager`: None: the fields are managed already."""
        kind = place.kind
        self._check_identity(place, before, value)
        value = _with_what_stays(place, before, value, keeps_managers=manager is not None)
        value = bodies.with_defaults(kind, value, is_new=False)
        if kind.has_generation and bodies.has_changed(kind, before, value):
            value["metadata"]["generation"] = before["metadata"].get("generation", 0) + 1
        bodies.check(kind, value, before)
        warnings = [*warnings, *self._admitted(place, "UPDATE", value, before, request)]
        if manager is not None:
            value = ownership.updated(kind.schema, before, value, manager, _now())
        if bodies.is_same(before, value):
            return Written(before, tuple(warnings))
        return Written(value if request.dry_run else self._keep(kind, value), tuple(warnings))

    def _admitted(
        self, place: Place, operation: str, value: Json | None, before: Json | None, request: Request
    ) -> list[str]:
        """Warnings. Raises StatusError."""
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

    def bind(self, place: Place, node: str, request: Request) -> None:
        """As the scheduler does."""
        before = self.get(place)
        if before["spec"].get("nodeName"):
            why = f'pod {place.name} is already assigned to node "{before["spec"]["nodeName"]}"'
            raise conflict("pods/binding", place.name, why)
        status = before.get("status") or {}
        others = [one for one in status.get("conditions") or () if one["type"] != "PodScheduled"]
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": _now(), "lastProbeTime": None}
        spec = {**before["spec"], "nodeName": node}
        value = {**before, "spec": spec, "status": {**status, "conditions": [*others, scheduled]}}
        if not request.dry_run:
            self._keep(place.kind, value)

    def delete(self, place: Place, options: Mapping[str, Any], request: Request) -> tuple[Json, bool]:
        """The object, and whether it has gone. Raises StatusError."""
        before, kind = self.get(place), place.kind
        self._check_preconditions(place, before["metadata"], options.get("preconditions") or {})
        if kind.stored_as == NAMESPACES and place.name in _OF_THE_SYSTEM:
            raise forbidden(kind.resource, place.name, "this namespace may not be deleted")
        self._admitted(place, "DELETE", None, before, request)
        if request.dry_run or options.get("dryRun"):
            return before, True
        value = _deleted(kind, before, options)
        if not value["metadata"]["deletionGracePeriodSeconds"] and not _is_held(kind, value):
            return self._remove(kind, before), True
        return before if bodies.is_same(before, value) else self._keep(kind, value), False

    def _check_preconditions(self, place: Place, about: Json, wanted: Mapping[str, Any]) -> None:
        for name, said in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            if wanted.get(name) not in {None, about[name]}:
                why = (
                    f"the {said} in the precondition ({wanted[name]}) does not match the {said} in record "
                    f"({about[name]}). The object might have been deleted and then recreated"
                )
                raise conflict(place.kind.resource, place.name, why)

    def _delete_quietly(self, kind: Kind, value: Json) -> None:
        self.delete(Place.of(kind, value), {}, SYSTEM)

    def _keep(self, kind: Kind, value: Json) -> Json:
        """Stores it, or removes it when it is being deleted and nobody holds it any more."""
        about = value["metadata"]
        if about.get("deletionGracePeriodSeconds") == 0 and not _is_held(kind, value):
            return self._remove(kind, value)
        value = self.store.put(kind.stored_as, value)
        if kind.stored_as == definitions.CRDS:
            self._serve(value, definitions.kinds_of(value))
        self._garbage.after_write(kind, value)
        return value

    def _remove(self, kind: Kind, value: Json) -> Json:
        last = self.store.remove(kind.stored_as, value)
        if kind.stored_as == definitions.CRDS:
            self._serve(value, ())
        self._garbage.after_removal(kind, last)
        return last

    def _serve(self, definition: Json, kinds: tuple[Kind, ...]) -> None:
        spec = definition["spec"]
        self.kinds.replace_custom(spec["group"], spec["names"]["plural"], kinds)
        if kinds:
            self.store.rewrite(kinds[0].stored_as, partial(bodies.as_served_now, kinds[0]))


def _another(place: Place, uid: str, known: str) -> str:
    key = "/".join(
        part for part in ("registry", place.kind.group, place.kind.plural, place.namespace, place.name) if part
    )
    return (
        f"StorageError: invalid object, Code: 4, Key: /{key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {uid}, UID in object meta: {known}"
    )


def _at_door(place: Place, config: Json) -> Json:
    """What of an applied object this door takes: the status has one of its own."""
    if place.subresource == "status":
        return {name: part for name, part in config.items() if name in {"apiVersion", "kind", "metadata", "status"}}
    if "status" in place.kind.subresources:
        return {name: part for name, part in config.items() if name != "status"}
    return config


def _with_what_stays(place: Place, before: Json, value: Json, *, keeps_managers: bool) -> Json:
    """Of an object that is written: what the writer, or this door to it, does not change."""
    kind, old = place.kind, before["metadata"]
    about = {name: part for name, part in value["metadata"].items() if name not in _KEPT}
    if keeps_managers and "managedFields" not in about and "managedFields" in old:
        about["managedFields"] = old["managedFields"]
    about |= {name: old[name] for name in (*_KEPT, "resourceVersion") if name in old}
    if place.subresource == "status":
        # Who writes the status of Kubernetes' own kinds may change labels and annotations as well.
        mine = {"managedFields"} if kind.is_custom else {"managedFields", "labels", "annotations"}
        kept = {name: part for name, part in old.items() if name not in mine}
        about = kept | {name: about[name] for name in mine if name in about}
        status = {"status": value["status"]} if "status" in value else {}
        return {name: part for name, part in before.items() if name != "status"} | {"metadata": about} | status
    value = {**value, "metadata": about}
    if "status" in kind.subresources:
        value.pop("status", None)
        value |= {"status": before["status"]} if "status" in before else {}
    return value


def _deleted(kind: Kind, before: Json, options: Mapping[str, Any]) -> Json:
    """With the moment at which it goes, and what holds it till then."""
    about = dict(before["metadata"])
    finalizers = list(about.get("finalizers") or ())
    policy = options.get("propagationPolicy") or ("Orphan" if options.get("orphanDependents") else "Background")
    wanted = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(policy)
    if kind.stored_as == definitions.CRDS:
        wanted = CLEANUP
    if wanted and wanted not in finalizers and "deletionTimestamp" not in about:
        about["finalizers"] = [*finalizers, wanted]
    grace = _grace(kind, before, options)
    if "deletionTimestamp" not in about or grace < about["deletionGracePeriodSeconds"]:
        about["deletionTimestamp"] = _shown(datetime.now(UTC) + timedelta(seconds=grace))
        about["deletionGracePeriodSeconds"] = grace
        if kind.has_generation and "deletionTimestamp" not in before["metadata"]:
            about["generation"] = about.get("generation", 0) + 1
    value = {**before, "metadata": about}
    if kind.stored_as == NAMESPACES:
        value["status"] = {**(before.get("status") or {}), "phase": "Terminating"}
    return value


def _grace(kind: Kind, value: Json, options: Mapping[str, Any]) -> int:
    """Seconds for the kubelet, which removes it in the end."""
    if kind.resource != "pods" or not value["spec"].get("nodeName"):
        return 0
    if (value.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
        return 0
    asked = options.get("gracePeriodSeconds")
    return int(value["spec"].get("terminationGracePeriodSeconds", 30) if asked is None else asked)


def _is_held(kind: Kind, value: Json) -> bool:
    by_spec = kind.stored_as == NAMESPACES and (value.get("spec") or {}).get("finalizers")
    return bool(value["metadata"].get("finalizers") or by_spec)


_PATCH_TYPES: Final = "the body of the request was in an unknown format - accepted media types include: "


def _now() -> str:
    return _shown(datetime.now(UTC))


def _shown(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
