"""What can go wrong: an expression that Kubernetes refuses, and one that it cannot evaluate on a device."""

from typing import ClassVar, Final

_SHOWN: Final = 80
"""So many characters of a line on each side of the place: an expression may be one line of ten thousand."""


class CelError(Exception):
    """One line for people; `str()` of it is that line. Expressions and devices can put text of any length into it, so
    what is beyond `LONGEST` characters is cut off.
    """

    LONGEST: ClassVar[int]

    def __init__(self, message: str) -> None:
        if len(message) > self.LONGEST:
            message = f"{message[: self.LONGEST - 3]}..."
        super().__init__(message)
        self.message = message


class CompileError(CelError):
    """Kubernetes would not accept the expression. `offset` counts the text's characters up to the place."""

    LONGEST = 700
    """Explained, with the line that it is about, it is shorter than 1,000."""

    def __init__(self, message: str, expression: str = "", offset: int = 0) -> None:
        super().__init__(message)
        self.expression = expression
        self.offset = offset

    @property
    def line(self) -> int:
        """From 1, as editors count."""
        return self.expression.count("\n", 0, self.offset) + 1

    @property
    def column(self) -> int:
        return self.offset - (self.expression.rfind("\n", 0, self.offset) + 1) + 1

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.message}"

    def explained(self) -> str:
        """The message, the line that it is about and a caret under the place."""
        line = self.expression.split("\n")[self.line - 1]
        begin = max(0, self.column - 1 - _SHOWN)
        before, after = line[begin : self.column - 1], line[self.column - 1 :][:_SHOWN]
        # A tab stays a tab, so that the caret stands where a terminal shows the character.
        indent = "".join("\t" if character == "\t" else " " for character in before)
        return f"{self}\n{before}{after}\n{indent}^"


class EvaluationError(CelError):
    """No answer for this device. In Kubernetes it stops the allocation of the claim."""

    LONGEST = 256


class BudgetError(EvaluationError):
    """Too expensive: unlike other errors it is never absorbed by `||`, `&&` or a macro."""
