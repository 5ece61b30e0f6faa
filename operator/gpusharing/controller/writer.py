"""From intents to writes: each by itself, so that the failure of one stops no other."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import structlog

from gpusharing.controller.backoff import Backoff
from gpusharing.controller.metrics import Metrics, Result
from gpusharing.controller.watching.store import Store
from gpusharing.core.intents import Create, Delete, Intent, Patch, PatchStatus, ReplaceSpec, Stage, Target, Tell, stage
from gpusharing.kube import kinds
from gpusharing.kube.events import Events, EventType
from gpusharing.kube.kinds import NODE_SHARINGS, SHARING_POLICIES, Kind
from gpusharing.kube.merging import merge_patch
from gpusharing.kube.transport import Api, ApiError, UnreachableError

log = structlog.get_logger(__name__)

_AT_ONCE: Final = 16

_KINDS: Final[Mapping[Target, Kind[Any]]] = {
    Target.ADMISSION_POLICY: kinds.ADMISSION_POLICIES,
    Target.DEVICE_CLASS: kinds.DEVICE_CLASSES,
    Target.DEVICE_TAINT_RULE: kinds.DEVICE_TAINT_RULES,
    Target.RESOURCE_QUOTA: kinds.RESOURCE_QUOTAS,
    Target.RESOURCE_CLAIM: kinds.RESOURCE_CLAIMS,
    Target.POD: kinds.PODS,
    Target.SHARING_POLICY: kinds.SHARING_POLICIES,
}

_Key: TypeAlias = tuple[str, str, str, str]


class Writer:
    def __init__(self, api: Api, store: Store, events: Events, metrics: Metrics) -> None:
        self._api = api
        self._store = store
        self._events = events
        self._metrics = metrics
        self._backoff = Backoff()
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._kinds = dict(_KINDS)

    def write_as(self, target: Target, kind: Kind[Any]) -> None:
        """For a kind of which the API server has another version."""
        self._kinds[target] = kind

    @property
    def retry_in(self) -> float | None:
        """Seconds until something that failed is to be tried again; None if nothing failed."""
        return self._backoff.next_in

    async def apply(self, intents: Sequence[Intent]) -> None:
        self._backoff.only({_key(intent) for intent in intents})
        due = [intent for intent in intents if self._backoff.is_due(_key(intent))]
        for now in Stage:
            await self._all([intent for intent in due if stage(intent) is now])

    async def _all(self, intents: Collection[Intent]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for intent in intents:
                tasks.create_task(self._one(intent))

    async def _one(self, intent: Intent) -> None:
        async with self._slots:
            result = await self._result(intent)
        self._metrics.applied(intent, result)
        if result is Result.FAILED:
            self._backoff.failed(_key(intent))
        else:
            self._backoff.succeeded(_key(intent))

    async def _result(self, intent: Intent) -> Result:
        kind, *_, name = _key(intent)
        try:
            match intent:
                case ReplaceSpec():
                    return await self._replace(intent)
                case PatchStatus():
                    return await self._patch_status(intent)
                case Tell():
                    await self._tell(intent)
                case _:
                    await self._write(intent)
        except ApiError as error:
            if error.status in {404, 409}:
                # What it is now comes by the watch, and with it the next decision.
                log.info("overtaken", intent=kind, object=name, verb=error.verb, error=str(error))
                return Result.CONFLICT
            log.error("write refused", intent=kind, object=name, verb=error.verb, error=str(error))  # noqa: TRY400
        except UnreachableError as error:
            log.error("write failed", intent=kind, object=name, error=str(error))  # noqa: TRY400
        except Exception:
            log.exception("write failed", intent=kind, object=name)
        else:
            return Result.WRITTEN
        return Result.FAILED

    async def _replace(self, intent: ReplaceSpec) -> Result:
        metadata = intent.before.metadata
        body = {"metadata": metadata.for_update(), "spec": intent.spec.to_json()}
        written = await self._api.replace(NODE_SHARINGS, metadata.name, body)
        self._store.written(NODE_SHARINGS, written.made_of(intent.spec, intent.before.status))
        log.info("spec written", object=metadata.name, generation=written.metadata.generation)
        return await self._announce(intent.notices)

    async def _announce(self, notices: Iterable[Tell]) -> Result:
        """What a write says that was made just now."""
        result = Result.WRITTEN
        for notice in notices:
            try:
                await self._tell(notice)
            except (ApiError, UnreachableError) as error:
                # The object says the same; telling it later could tell it twice.
                log.warning("event not written", object=_key(notice)[-1], note=notice.note, error=str(error))
                result = Result.UNANNOUNCED
        return result

    async def _write(self, intent: Create | Patch | Delete) -> None:
        kind = self._kinds[intent.target]
        match intent:
            case Create(body=body):
                namespace = body["metadata"].get("namespace", "")
                self._store.created(kind, await self._api.create(kind, body, namespace))
            case Patch(before=before, body=body):
                patch = body | {"metadata": body.get("metadata", {}) | {"resourceVersion": before.resource_version}}
                written = await self._api.merge_patch(kind, before.name, patch, namespace=before.namespace)
                self._store.written(kind, written)
            case Delete(before=before):
                await self._api.delete(kind, before.name, uid=before.uid, namespace=before.namespace)
        log.info("written", intent=type(intent).__name__, kind=kind.kind, object=_key(intent)[-1])

    async def _tell(self, intent: Tell) -> None:
        await self._events.tell(
            self._kinds[intent.target],
            intent.about,
            type_=EventType.WARNING if intent.warning else EventType.NORMAL,
            action=intent.action,
            reason=intent.reason,
            note=intent.note,
        )
        log.info("told", kind=intent.target, object=_key(intent)[-1], reason=intent.reason, note=intent.note)

    async def _patch_status(self, intent: PatchStatus) -> Result:
        metadata = intent.before.metadata
        patch = {
            "metadata": {"resourceVersion": metadata.resource_version},
            "status": merge_patch(intent.before.status.to_json(), intent.status.to_json()),
        }
        written = await self._api.merge_patch(SHARING_POLICIES, metadata.name, patch, subresource="status")
        self._store.written(SHARING_POLICIES, written)
        return await self._announce(intent.notices)


def _key(intent: Intent) -> _Key:
    kind = type(intent).__name__
    match intent:
        case ReplaceSpec(before=before) | PatchStatus(before=before):
            return kind, "", "", before.metadata.name
        case Create(target=target, body=body):
            return kind, target, body["metadata"].get("namespace", ""), body["metadata"]["name"]
        case Patch(target=target, before=metadata) | Delete(target=target, before=metadata):
            return kind, target, metadata.namespace, metadata.name
        case Tell(target=target, about=metadata, reason=reason):
            return kind, f"{target} {reason}", metadata.namespace, metadata.name
