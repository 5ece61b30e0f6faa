"""Where the instances of a static MIG layout go."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Final

from gpusharing.api.names import MigPlace
from gpusharing.core.devices import counters, options
from gpusharing.core.devices.gpu import Divisible, MigProfile
from gpusharing.core.devices.placements import in_order

# The layouts of real GPUs, of at most eight slices, take some hundred. What an agent reports may ask for any number.
_MOST_TRIES: Final = 10_000


def places(layout: Mapping[str, int], gpu: Divisible, others: Sequence[MigPlace] = ()) -> tuple[MigPlace, ...] | None:
    """Those that are missing where others have made instances; None where no room is found for all. Always the same
    places for the same layout."""
    by_name = {profile.name: profile for profile in gpu.mig.profiles} if gpu.mig else {}
    if not layout.keys() <= by_name.keys():
        return None
    wanted = [by_name[name] for name, count in sorted(layout.items()) for _ in range(count)]
    for place in others:
        there = next((profile for profile in wanted if profile.id == place.profile_id), None)
        if there is not None:
            wanted.remove(there)
    # Large ones have the fewest places to go.
    wanted.sort(key=lambda profile: (profile.size, profile.slices, profile.id), reverse=True)
    starts: dict[int, list[int]] = {}
    for profile, start in in_order(tuple(by_name[name] for name in layout)):
        starts.setdefault(profile.id, []).append(start)
    drawn = [options.draw_of_place(gpu, place) for place in others]
    found = _search(wanted, starts, drawn, counters.supply(gpu), count(1))
    return None if found is None else tuple(found)


def too_many(layout: Mapping[str, int], gpu: Divisible) -> Mapping[str, int]:
    """What has to be left out of the layout so that the rest fits: small instances rather than large ones."""
    return _too_many(tuple(sorted(layout.items())), gpu)


# A thousand nodes have few models between them, and a layout that does not fit is tried out for long.
@lru_cache(maxsize=256)
def _too_many(wanted: tuple[tuple[str, int], ...], gpu: Divisible) -> Mapping[str, int]:
    layout = dict(wanted)
    if places(layout, gpu) is not None:
        return {}
    by_name = {profile.name: profile for profile in gpu.mig.profiles} if gpu.mig else {}
    room: dict[str, int] = {}
    for name in sorted(layout, key=lambda name: (-by_name[name].size, -by_name[name].slices, name)):
        fitting = (number for number in range(layout[name], 0, -1) if places(room | {name: number}, gpu) is not None)
        if number := next(fitting, 0):
            room[name] = number
    return {name: number - room.get(name, 0) for name, number in layout.items() if number > room.get(name, 0)}


def _search(
    wanted: list[MigProfile],
    starts: Mapping[int, Sequence[int]],
    drawn: list[counters.Draw],
    available: counters.Draw,
    tries: Iterator[int],
) -> list[MigPlace] | None:
    if not wanted:
        return []
    profile, *rest = wanted
    for number, start in enumerate(starts.get(profile.id, ())):
        if next(tries) > _MOST_TRIES:
            return None
        draws = [*drawn, counters.mig_instance(profile, start)]
        if not counters.fit(draws, available):
            continue
        # Another one of the kind goes behind this one: which of them is which makes no difference.
        behind = {**starts, profile.id: starts[profile.id][number + 1 :]}
        if (others := _search(rest, behind, draws, available, tries)) is not None:
            return [MigPlace(profile.id, start), *others]
    return None
