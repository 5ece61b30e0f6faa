"""The one error of this package, with a message for the person at the keyboard."""


class SimError(Exception):
    pass
