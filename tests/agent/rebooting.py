"""Simulated nodes that come back from a reboot with other hardware than they went."""

from chaos import hardware
from gpusharing import sim


def reboot_without(node: sim.SimNode, uuid: str, *, stale_cdi: bool) -> None:
    """The GPU is gone, and the kernel numbers the others anew. `stale_cdi`: NVIDIA's CDI file stays as it was, as where
    `nvidia-ctk cdi generate` was run once."""
    spec = next(path for path in node.cdi.iterdir() if uuid in path.read_text())
    before = spec.read_bytes()
    [place] = [gpu.index for gpu in node.gpus() if gpu.uuid == uuid]
    node.unload_driver()
    hardware.take_out(node, place)
    node.reboot()
    if stale_cdi:
        spec.write_bytes(before)
