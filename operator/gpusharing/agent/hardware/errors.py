class HardwareError(Exception):
    """A GPU, or a tool that speaks to it, did not do as it was told. The message names both."""


class NotSupportedError(HardwareError):
    """This GPU cannot do that, now or later."""
