"""Where the instances of a static MIG layout go."""

from collections.abc import Mapping

from gpusharing.api.names import MigPlace
from gpusharing.core.inventory import MigProfile, MigSupport
from gpusharing.core.offers import counters
from gpusharing.core.offers.placements import in_order


def places(layout: Mapping[str, int], mig: MigSupport, available: counters.Draw) -> tuple[MigPlace, ...] | None:
    """None where they do not fit on the GPU together. Always the same places for the same layout."""
    by_name = {profile.name: profile for profile in mig.profiles}
    if not layout.keys() <= by_name.keys():
        return None
    wanted = [by_name[name] for name, count in sorted(layout.items()) for _ in range(count)]
    # Large ones have the fewest places to go.
    wanted.sort(key=lambda profile: (profile.size, profile.slices, profile.id), reverse=True)
    starts: dict[int, list[int]] = {}
    for profile, start in in_order(tuple(by_name[name] for name in layout)):
        starts.setdefault(profile.id, []).append(start)
    found = _search(wanted, starts, [], available)
    return None if found is None else tuple(found)


def _search(
    wanted: list[MigProfile],
    starts: Mapping[int, list[int]],
    drawn: list[counters.Draw],
    available: counters.Draw,
) -> list[MigPlace] | None:
    if not wanted:
        return []
    profile, *rest = wanted
    for start in starts.get(profile.id, ()):
        draws = [*drawn, counters.mig_instance(profile, start)]
        if counters.fit(draws, available) and (others := _search(rest, starts, draws, available)) is not None:
            return [MigPlace(profile.id, start), *others]
    return None
