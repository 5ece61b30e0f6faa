"""What errors say."""

import pytest

from gpusharing.nvidia import errors
from gpusharing.nvidia.errors import HardwareError

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, HardwareError)]


# Those that say more of what they are about have tests where they are raised.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.__init__ is HardwareError.__init__])
def test_every_kind_names_the_gpu_and_what_to_do(kind: type[HardwareError]) -> None:
    assert str(kind("it broke", gpu="GPU-1")) == f"GPU GPU-1: it broke: {kind.remedy}"
    assert str(kind("GPU-1 broke", gpu="GPU-1", remedy="mend it")) == "GPU-1 broke: mend it"
    assert len(kind.remedy) > 5
