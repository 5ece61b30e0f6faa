"""An agent that makes and destroys MIG instances for ever; says when it begins."""

import asyncio
import itertools
import sys
from pathlib import Path

from gpusharing import sim
from gpusharing.nvidia.facts import MigPlace
from gpusharing.nvidia.hardware import Hardware


async def main() -> None:
    node = sim.SimNode.open(Path(sys.argv[1]))
    hardware = Hardware(node.directory, sysfs_root=node.sys)
    await hardware.open()
    gpu = node.gpus()[0].uuid
    sys.stdout.write("begins\n")
    sys.stdout.flush()
    for number in itertools.count():
        place = MigPlace(19, number % 7)
        await hardware.create_mig_instance(gpu, place)
        await hardware.destroy_mig_instance(gpu, place)


asyncio.run(main())
