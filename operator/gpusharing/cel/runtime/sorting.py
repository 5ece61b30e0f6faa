"""Go's sort.Slice, step by step: it is not stable, so where equal keys end up is part of the answer."""

from collections.abc import Callable
from typing import Final

_INSERTION: Final = 12
"""So many items are sorted by insertion."""
_NINTHER: Final = 50
_MOST_SWAPS: Final = 12
_MOST_STEPS: Final = 5
_MASK: Final = (1 << 64) - 1


def sorted_indices(length: int, less: Callable[[int, int], bool]) -> list[int]:
    """The numbers from 0 in the order that `less` gives them."""
    sort = _Sort(list(range(length)), less)
    sort.quicksort(0, length, length.bit_length())
    return sort.items


class _Sort:
    def __init__(self, items: list[int], less: Callable[[int, int], bool]) -> None:
        self.items = items
        self._less_items = less
        self._swaps = 0

    def _less(self, one: int, other: int) -> bool:
        return self._less_items(self.items[one], self.items[other])

    def _swap(self, one: int, other: int) -> None:
        items = self.items
        items[one], items[other] = items[other], items[one]

    def quicksort(self, begin: int, end: int, bad_choices: int) -> None:
        """Pattern-defeating, until the pivots were badly chosen so many times."""
        was_balanced = was_partitioned = True
        while (length := end - begin) > _INSERTION:
            if bad_choices == 0:
                self._heapsort(begin, end)
                return
            if not was_balanced:
                self._break_patterns(begin, end)
                bad_choices -= 1
            pivot, is_rising = self._choose_pivot(begin, end)
            if is_rising is False:
                self.items[begin:end] = self.items[begin:end][::-1]
                pivot = (end - 1) - (pivot - begin)
                is_rising = True
            if was_balanced and was_partitioned and is_rising and self._sort_almost_sorted(begin, end):
                return
            if begin > 0 and not self._less(begin - 1, pivot):
                begin = self._partition_equal(begin, end, pivot)
                continue
            middle, was_partitioned = self._partition(begin, end, pivot)
            left, right = middle - begin, end - middle
            was_balanced = min(left, right) >= length // 8
            if left < right:
                self.quicksort(begin, middle, bad_choices)
                begin = middle + 1
            else:
                self.quicksort(middle + 1, end, bad_choices)
                end = middle
        self._insert(begin, end)

    def _insert(self, begin: int, end: int) -> None:
        for i in range(begin + 1, end):
            self._shift_left(i, begin)

    def _shift_left(self, at: int, lowest: int) -> None:
        while at > lowest and self._less(at, at - 1):
            self._swap(at, at - 1)
            at -= 1

    def _heapsort(self, begin: int, end: int) -> None:
        length = end - begin
        for i in range((length - 1) // 2, -1, -1):
            self._sift_down(i, length, begin)
        for i in range(length - 1, -1, -1):
            self._swap(begin, begin + i)
            self._sift_down(0, i, begin)

    def _sift_down(self, root: int, end: int, first: int) -> None:
        while (child := 2 * root + 1) < end:
            if child + 1 < end and self._less(first + child, first + child + 1):
                child += 1
            if not self._less(first + root, first + child):
                return
            self._swap(first + root, first + child)
            root = child

    def _break_patterns(self, begin: int, end: int) -> None:
        length = end - begin
        random = length
        modulus = 1 << length.bit_length()
        middle = begin + length // 4 * 2
        for at in range(middle - 1, middle + 2):
            random ^= random << 13 & _MASK
            random ^= random >> 7
            random ^= random << 17 & _MASK
            other = random & (modulus - 1)
            self._swap(at, begin + (other - length if other >= length else other))

    def _choose_pivot(self, begin: int, end: int) -> tuple[int, bool | None]:
        """With whether the items seem to be in order, in reverse order (False), or neither (None)."""
        length = end - begin
        self._swaps = 0
        low, middle, high = (begin + length // 4 * quarter for quarter in (1, 2, 3))
        if length >= _NINTHER:
            low, middle, high = (self._median(at - 1, at, at + 1) for at in (low, middle, high))
        middle = self._median(low, middle, high)
        return middle, {0: True, _MOST_SWAPS: False}.get(self._swaps)

    def _median(self, one: int, other: int, third: int) -> int:
        one, other = self._in_order(one, other)
        other, third = self._in_order(other, third)
        return self._in_order(one, other)[1]

    def _in_order(self, one: int, other: int) -> tuple[int, int]:
        if self._less(other, one):
            self._swaps += 1
            return other, one
        return one, other

    def _sort_almost_sorted(self, begin: int, end: int) -> bool:
        at = begin + 1
        for _ in range(_MOST_STEPS):
            while at < end and not self._less(at, at - 1):
                at += 1
            if at == end:
                return True
            if end - begin < _NINTHER:
                return False
            self._swap(at, at - 1)
            if at - begin >= 2:
                self._shift_left(at - 1, 0)
            if end - at >= 2:
                self._shift_right(at + 1, end)
        return False

    def _shift_right(self, at: int, end: int) -> None:
        while at < end and self._less(at, at - 1):
            self._swap(at, at - 1)
            at += 1

    def _partition_equal(self, begin: int, end: int, pivot: int) -> int:
        """Into items equal to the pivot and larger ones."""
        self._swap(begin, pivot)
        low, high = begin + 1, end - 1
        while True:
            while low <= high and not self._less(begin, low):
                low += 1
            while low <= high and self._less(begin, high):
                high -= 1
            if low > high:
                return low
            self._swap(low, high)
            low, high = low + 1, high - 1

    def _partition(self, begin: int, end: int, pivot: int) -> tuple[int, bool]:
        """Into smaller and other items; with the pivot's new place, and whether they were so before."""
        self._swap(begin, pivot)
        low, high = begin + 1, end - 1
        was_partitioned = True
        while True:
            while low <= high and self._less(low, begin):
                low += 1
            while low <= high and not self._less(high, begin):
                high -= 1
            if low > high:
                self._swap(high, begin)
                return high, was_partitioned
            was_partitioned = False
            self._swap(low, high)
            low, high = low + 1, high - 1
