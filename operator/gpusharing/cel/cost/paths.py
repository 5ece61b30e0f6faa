"""Where in the device a value comes from, as cel-go's estimate follows it."""

from typing import Final


class Path:
    """The way from a variable to a part of it: fields, @keys and @values of a map, @items and @indices of a list.

    A path is a Go slice, with what that entails: the second step that is appended to a path may replace the first one
    in the path that it led to. In `device.attributes["d"].all(k, v, ...)` both variables so lead to the values, and the
    API server takes the keys for longer than they can be.
    """

    __slots__ = ("_capacity", "_length", "_steps")

    def __init__(self, steps: list[str], length: int, capacity: int) -> None:
        self._steps = steps  # may be shared, and then longer than this path
        self._length = length
        self._capacity = capacity

    @classmethod
    def of_variable(cls, name: str) -> "Path":
        return cls([name], 1, 1)

    def to(self, step: str) -> "Path":
        if self._length == self._capacity:
            return Path([*self.steps, step], self._length + 1, max(1, 2 * self._capacity))
        if self._length == len(self._steps):
            self._steps.append(step)
        else:
            self._steps[self._length] = step
        return Path(self._steps, self._length + 1, self._capacity)

    def without_effect_to(self, step: str) -> "Path":
        """Like `to`, of a copy."""
        steps = [*self.steps, step]
        return Path(steps, len(steps), len(steps))

    @property
    def variable(self) -> str | None:
        return self._steps[0] if self._length else None

    @property
    def steps(self) -> list[str]:
        return self._steps[: self._length]


NOWHERE: Final = Path([], 0, 0)
