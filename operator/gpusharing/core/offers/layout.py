"""Where the instances of a static MIG layout go."""

from collections.abc import Mapping, Sequence

from gpusharing.api.names import MigPlace
from gpusharing.core.inventory import Gpu, MigProfile
from gpusharing.core.offers import counters, options
from gpusharing.core.offers.placements import in_order


def places(layout: Mapping[str, int], gpu: Gpu, others: Sequence[MigPlace] = ()) -> tuple[MigPlace, ...] | None:
    """Those that are missing where others have made instances; None where they do not all fit. Always the same places
    for the same layout."""
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
    found = _search(wanted, starts, drawn, counters.supply(gpu))
    return None if found is None else tuple(found)


def _search(
    wanted: list[MigProfile],
    starts: Mapping[int, Sequence[int]],
    drawn: list[counters.Draw],
    available: counters.Draw,
) -> list[MigPlace] | None:
    if not wanted:
        return []
    profile, *rest = wanted
    for number, start in enumerate(starts.get(profile.id, ())):
        draws = [*drawn, counters.mig_instance(profile, start)]
        if not counters.fit(draws, available):
            continue
        # Another one of the kind goes behind this one: which of them is which makes no difference.
        behind = {**starts, profile.id: starts[profile.id][number + 1 :]}
        if (others := _search(rest, behind, draws, available)) is not None:
            return [MigPlace(profile.id, start), *others]
    return None
