"""What an evaluation has cost so far, to Kubernetes and to us."""

from collections.abc import Callable
from typing import Any, Final

from gpusharing.cel.cost.prices import COST_LIMIT, per_character
from gpusharing.cel.cost.work import MOST_INSTRUCTIONS, reading, searching
from gpusharing.cel.errors import BudgetError, EvaluationError
from gpusharing.cel.runtime.regexes import REMEMBERED, computed
from gpusharing.cel.values.regex import Regex

MOST_WORK: Final = 5_000_000
"""Items looked at, or so many characters as take as long. Of what Kubernetes hardly charges for there may be more than
anybody has the time for."""
_CHARACTERS: Final = 4
_PER_FORMATTED_CHARACTER: Final = 4
_PER_ITEM_INSIDE: Final = 8
_PER_SORTED_ITEM: Final = 30
_PER_REFUND: Final = 5
_SIZED: Final = (str, bytes, list, dict)

Price = Callable[[Any, Any], int]


class Meter:
    __slots__ = ("_patterns", "cost", "work")

    def __init__(self) -> None:
        self.cost = 0
        self.work = 0
        self._patterns: set[str] = set()

    def check(self) -> None:
        """In every turn of a loop and at the end; in between, generated code only counts."""
        # Kubernetes counts without a sign: less than nothing is more than anybody may spend.
        if not 0 <= self.cost <= COST_LIMIT:
            raise BudgetError(f"operation cancelled: actual cost limit of {COST_LIMIT} exceeded")
        if self.work > MOST_WORK:
            raise BudgetError("the evaluation takes too long, although Kubernetes would allow it")

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A function whose time depends on the sizes of its arguments, whatever its price."""
        self._look_at(arguments)
        result = function(*arguments)
        self._look_at((result,))
        return result

    def call(self, price: Price, function: Callable[..., Any], *arguments: Any) -> Any:
        """The price of a call that fails has to be paid, too."""
        self._look_at(arguments)
        try:
            result = function(*arguments)
        except EvaluationError as error:
            self._pay_for_failure(price(arguments, error))
            raise
        self.cost += price(arguments, result)
        self._look_at((result,))
        return result

    def _pay_for_failure(self, price: int) -> None:
        self.cost += price
        if price < 0:
            # What is given back could be spent again without an end.
            self.work -= _PER_REFUND * price
            self.check()

    def sort(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Kubernetes charges for sorting only if it knows the type of the items."""
        self._look_at(argument for argument in arguments for _ in range(_PER_SORTED_ITEM))
        return function(*arguments)

    def call_if_affordable(self, price: Price, function: Callable[..., Any], *arguments: Any) -> Any:
        """Each item with each: that is paid for before."""
        self.cost += price(arguments, None)
        self.check()
        return function(*arguments)

    def call_for_all_inside(self, price: Price, function: Callable[..., Any], *arguments: Any) -> Any:
        """To find out the price takes longer than the call."""
        self._look_at(arguments[0] for _ in range(_PER_ITEM_INSIDE))
        return self.call(price, function, *arguments)

    def format(self, price: Price, function: Callable[..., Any], template: str, arguments: Any) -> Any:
        result = self.call(price, function, template, arguments)
        self.work += _PER_FORMATTED_CHARACTER * len(result)
        return result

    def searching(self, function: Callable[..., Any], regex: Regex | None) -> Callable[..., Any]:
        """`matches`, `find` or `findAll`, whose time also depends on the size of the regular expression. None: it is
        only known now.
        """

        def search(text: Any, pattern: Any, *limit: Any) -> Any:
            if isinstance(text, str) and isinstance(pattern, str):
                size = regex.program_size if regex else self._read(pattern)
                self.work += searching(len(text), size)
                if self.work > MOST_WORK:
                    self.check()
            return function(text, pattern, *limit)

        return search

    def _read(self, pattern: str) -> int:
        if pattern in self._patterns:
            return computed(pattern).program_size
        if len(self._patterns) == REMEMBERED:
            self._patterns.clear()
        self._patterns.add(pattern)
        self.work += reading(MOST_INSTRUCTIONS)
        size = computed(pattern).program_size
        self.work -= reading(MOST_INSTRUCTIONS) - reading(size)
        return size

    def refuse(self, price: Price, message: str, *arguments: Any) -> None:
        """Pays for a call that does not take place, because one of its arguments, here an error, failed."""
        error = EvaluationError(message)
        self._pay_for_failure(price(arguments, error))
        raise error

    def refuse_errors(self, price: Price, *arguments: Any) -> None:
        """The same if there is an error among the arguments."""
        error = next((argument for argument in arguments if isinstance(argument, EvaluationError)), None)
        if error is not None:
            self.refuse(price, error.message, *arguments)

    def equal(self, price: Price, function: Callable[..., Any], left: Any, right: Any) -> Any:
        if type(left) is str and type(right) is str:
            self.work += 1
            self.cost += per_character(min(len(left), len(right)))
            return left == right
        return self.call(price, function, left, right)

    def unequal(self, price: Price, function: Callable[..., Any], left: Any, right: Any) -> Any:
        if type(left) is str and type(right) is str:
            self.work += 1
            self.cost += per_character(min(len(left), len(right)))
            return left != right
        return self.call(price, function, left, right)

    def _look_at(self, values: Any) -> None:
        for value in values:
            if isinstance(value, _SIZED):
                self.work += len(value) // _CHARACTERS if isinstance(value, str | bytes) else len(value)
        self.work += 1
        if self.work > MOST_WORK:
            self.check()
