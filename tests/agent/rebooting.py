"""Simulated nodes that come back from a reboot with other hardware than they went."""

import ctypes

from gpusharing import sim
from gpusharing.sim import store


def reboot_without(node: sim.SimNode, uuid: str, *, stale_cdi: bool) -> None:
    """The GPU is gone, and the kernel numbers the others anew. `stale_cdi`: NVIDIA's CDI file stays as it was, as where
    `nvidia-ctk cdi generate` was run once."""
    spec = next(path for path in node.cdi.iterdir() if uuid in path.read_text())
    before = spec.read_bytes()
    node.unload_driver()
    with store.locked(node.state) as state:
        gpus = state.gpus[: state.gpu_count]
        minors = sorted(gpu.minor for gpu in gpus)
        place = next(index for index, gpu in enumerate(gpus) if gpu.uuid.decode() == uuid)
        for index in range(place, state.gpu_count - 1):
            ctypes.memmove(
                ctypes.byref(state.gpus[index]), ctypes.byref(state.gpus[index + 1]), ctypes.sizeof(state.gpus[index])
            )
        state.gpu_count -= 1
        for gpu, minor in zip(state.gpus[: state.gpu_count], minors, strict=False):
            gpu.minor = minor
    node.load_driver()
    node.reboot()
    if stale_cdi:
        spec.write_bytes(before)
