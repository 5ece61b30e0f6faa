"""What can be wrong with GPUs and with what speaks to them. Each names the GPU, where there is one, and what to do."""

from typing import ClassVar

from gpusharing.nvidia.facts import GpuInstance, MigPlace


class HardwareError(Exception):
    """A GPU, or a program that speaks to it, did not do as it was told."""

    remedy: ClassVar[str] = "see the kernel's log, and try again"

    def __init__(self, problem: str, *, gpu: str | None = None, remedy: str | None = None) -> None:
        self.gpu = gpu
        self.problem = problem
        named = problem if gpu is None or gpu in problem else f"GPU {gpu}: {problem}"
        super().__init__(f"{named}: {remedy or self.remedy}")


class NotSupportedError(HardwareError):
    """This GPU cannot do that, now or later."""

    remedy = "use another GPU, or omit the setting"


class DriverTooOldError(NotSupportedError):
    """The driver does not know what it was asked for."""

    remedy = "install a newer GPU driver"


class NotPermittedError(HardwareError):
    remedy = "run the agent as root, privileged"


class NotFoundError(HardwareError):
    """The driver knows no GPU, or no instance, of this name."""

    remedy = "check the GPUs with `nvidia-smi -L`, and try again"


class InstanceMissingError(NotFoundError):
    """Somebody has destroyed MIG instances that containers use. Others at their places would be other devices."""

    remedy = "delete the pods that use them"

    def __init__(self, gone: tuple[str, ...], *, gpu: str) -> None:
        super().__init__(f"MIG instances {', '.join(gone)} of claims are gone", gpu=gpu)
        self.gone = gone


class ConfusedError(HardwareError):
    """The driver does not understand what it should: others may have changed the GPUs under it, or it is broken."""

    remedy = "try again; if it stays so, reboot the node"


class InvalidArgumentError(ConfusedError):
    pass


class GpuLostError(HardwareError):
    """It has fallen off the bus, or the driver has given it up."""

    remedy = "see the kernel's log for its XID; reset the GPU, or reboot the node"


class ResetRequiredError(HardwareError):
    remedy = "reboot the node, or reset the GPU with nvidia-smi --gpu-reset while nothing uses it"


class InUseError(HardwareError):
    """Somebody holds what was to be changed."""

    remedy = "end the programs that use it, and try again"


class OperatingSystemError(HardwareError):
    """The kernel did not do what the driver's library asked of it."""

    remedy = "see the kernel's log"


class NothingHappenedError(HardwareError):
    """The driver has waited in vain."""

    remedy = "try again"


class DriverDownError(HardwareError):
    """Nothing can be asked of the driver: it is not this or that GPU, but all of them."""


class DriverGoneError(DriverDownError):
    """It is not loaded, or not for this process."""

    remedy = "load the driver; after another version was loaded, the agent has to restart"


class DriverExchangedError(DriverGoneError):
    """Another driver is loaded than the one that this process has the library of, for good."""


class DriverHungError(DriverDownError):
    """The driver has not answered within its time. Nothing more is asked of it until it does."""

    remedy = "see the kernel's log; reboot the node if the driver does not answer again"


class SettingNotAppliedError(HardwareError):
    """The driver said that it had done something, and has not."""

    remedy = "try again; if it stays so, reboot the node and report it to NVIDIA"


class ProgramError(HardwareError):
    """A program of the driver failed. The message has its command and what it said."""

    remedy = "run it by hand on the node"


class ProgramMissingError(ProgramError):
    remedy = "install the GPU driver, or set --driver-root to its directory"


class DriverNotFoundError(ProgramMissingError):
    """No driver is installed where drivers are looked for."""


class ProgramHungError(ProgramError):
    """It was ended."""

    remedy = "see the kernel's log; reboot the node if it hangs again"


class MigDisabledError(HardwareError):
    """MIG instances need MIG mode, which is off."""

    remedy = "enable MIG mode first"


class MigModePendingError(HardwareError):
    """The driver has noted the wish for another MIG mode, and has not fulfilled it."""

    remedy = "end everything that has the GPU open and try again; otherwise reset the GPU or reboot the node"


class NoRoomError(HardwareError):
    """Something else lies where the MIG instance should."""

    remedy = "check the instances with `nvidia-smi mig -lgi`, and try again"


class NotOursError(HardwareError):
    """What is there is not what was to be changed, so it is left alone."""

    remedy = "check it with `nvidia-smi mig -lgi`; the program that made it has to remove it"


class LeftoverError(HardwareError):
    """A change failed half-way, and what was done could not be undone."""

    remedy = "destroy what is left once the driver permits it"

    def __init__(self, problem: str, *, place: MigPlace, left: GpuInstance | None, gpu: str) -> None:
        """`left` is as it was last seen; None: nobody saw what there is now at this place."""
        what = left or f"whatever is at {place.start} with profile {place.profile_id}"
        super().__init__(f"{problem}; left is {what}", gpu=gpu)
        self.place = place
        self.left = left


class CapabilityError(HardwareError):
    """The kernel does not say how containers get into a MIG instance, or the way cannot be made."""

    remedy = "run `nvidia-smi -L` as root on the node, which makes them, and see the kernel's log"


class MpsError(HardwareError):
    """An MPS control daemon does not do as it should."""

    remedy = "see control.log and server.log in its directory"


class MpsHungError(MpsError):
    """It runs and does not answer."""

    remedy = "delete the pods that use it; the agent then ends it by force"
