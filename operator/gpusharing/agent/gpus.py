"""The GPUs of this node, as they are offered and as they should be."""

import dataclasses
from collections.abc import Iterable, Mapping

from gpusharing.agent.records import Records, publish
from gpusharing.api.sharing import GpuSharing
from gpusharing.core import publication
from gpusharing.core.inventory import Board, Gpu
from gpusharing.core.publication import OfferedGpu


class NodeGpus:
    def __init__(self, records: Records) -> None:
        self._records = records
        self._boards: Mapping[str, Board] = {}

    def found(self, boards: Iterable[Board]) -> None:
        self._boards = {board.uuid: board for board in sorted(boards, key=lambda board: board.minor)}
        for uuid in self._boards:
            self._records.gpu(uuid)

    @property
    def uuids(self) -> list[str]:
        return sorted(self._boards, key=lambda uuid: self._records.gpu(uuid).slot)

    def uuid_at(self, slot: int) -> str | None:
        return next((uuid for uuid in self._boards if self._records.gpu(uuid).slot == slot), None)

    def published(self, uuid: str) -> OfferedGpu:
        record = self._records.gpu(uuid)
        return OfferedGpu(
            gpu=self._gpu(uuid),
            offers=record.published_offers,
            policy=record.published_policy,
            configured=record.published_configured,
        )

    def told(self, decisions: Iterable[GpuSharing]) -> None:
        """Keeps the operator's last word, on disk: it holds when operator and API server are away."""
        for decision in decisions:
            if decision.uuid in self._boards:
                record = self._records.gpu(decision.uuid)
                self._records.put_gpu(decision.uuid, record.model_copy(update={"decided": decision}))

    def advance(self) -> None:
        """Puts in force what may be, on disk before anybody sees it."""
        for uuid in self._boards:
            current = self.published(uuid)
            in_use = bool(self._records.claims_on(uuid))
            new = publication.in_force(current, self._wanted(uuid), in_use=in_use)
            if new != current:
                self._records.put_gpu(uuid, publish(self._records.gpu(uuid), new))

    def _wanted(self, uuid: str) -> OfferedGpu:
        decided = self._records.gpu(uuid).decided
        return OfferedGpu(
            gpu=self._gpu(uuid),
            offers=(decided and decided.offers) or publication.AS_FOUND,
            policy=decided.policy if decided else None,
            configured=decided is not None,
        )

    def _gpu(self, uuid: str) -> Gpu:
        board = self._boards[uuid]
        facts = {field.name: getattr(board, field.name) for field in dataclasses.fields(board)}
        return Gpu(slot=self._records.gpu(uuid).slot, **facts)
