"""Models of GPUs as an agent tells the operator of them: what they can be cut into, once for all GPUs of a model."""

from collections.abc import Iterable
from dataclasses import dataclass

from gpusharing.api.sharing.gpu_models import GpuModel, MigProfilePlaces
from gpusharing.api.sharing.gpu_status import GpuStatus
from gpusharing.core.devices.gpu import Board, Engines, MigProfile, MigSupport
from gpusharing.core.quantities import mebibytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What the operator knows of how a GPU can be cut."""

    memory_mib: int
    mig: MigSupport | None
    reserved_mib: int = 0

    @property
    def usable_mib(self) -> int:
        return self.memory_mib - self.reserved_mib


def described(boards: Iterable[Board]) -> tuple[GpuModel, ...]:
    """Of two GPUs of a model, the one that tells more: old drivers tell nothing while MIG mode is off."""
    found: dict[str, GpuModel] = {}
    for board in boards:
        if board.mig is None:
            continue
        model = GpuModel(
            model=board.product_name,
            switch_resets=board.mig.switch_resets_gpu,
            profiles=tuple(map(_described, board.mig.profiles)),
        )
        known = found.get(model.model)
        if known is None or len(known.profiles) < len(model.profiles):
            found[model.model] = model
    return tuple(found[name] for name in sorted(found))


def reported(gpu: GpuStatus, models: Iterable[GpuModel]) -> Reported:
    """None of its MIG: it cannot be cut, or its agent does not say how."""
    model = next((model for model in models if model.model == gpu.model), None)
    total = mebibytes(gpu.memory)
    usable = mebibytes(gpu.usable_memory) if gpu.usable_memory else total
    return Reported(memory_mib=total, mig=_support(model) if model else None, reserved_mib=total - usable)


def _described(profile: MigProfile) -> MigProfilePlaces:
    engines = profile.engines
    return MigProfilePlaces(
        name=profile.name,
        id=profile.id,
        slices=profile.slices,
        memory=profile.memory_mib,
        size=profile.size,
        starts=profile.starts,
        multiprocessors=engines.multiprocessors,
        copy_engines=engines.copy_engines,
        decoders=engines.decoders,
        encoders=engines.encoders,
        jpeg_engines=engines.jpeg_engines,
        ofa_engines=engines.ofa_engines,
    )


def _support(model: GpuModel) -> MigSupport:
    return MigSupport(profiles=tuple(map(_profile, model.profiles)), switch_resets_gpu=model.switch_resets)


def _profile(told: MigProfilePlaces) -> MigProfile:
    return MigProfile(
        id=told.id,
        name=told.name,
        slices=told.slices,
        memory_mib=told.memory,
        engines=Engines(
            multiprocessors=told.multiprocessors,
            copy_engines=told.copy_engines,
            decoders=told.decoders,
            encoders=told.encoders,
            jpeg_engines=told.jpeg_engines,
            ofa_engines=told.ofa_engines,
        ),
        size=told.size,
        starts=told.starts,
    )
