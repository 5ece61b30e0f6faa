"""In which order MIG placements are offered: the scheduler takes the first that fits, so small ones come where they
spoil the fewest places for large ones."""

from gpusharing.core.devices.gpu import MigProfile


def in_order(profiles: tuple[MigProfile, ...]) -> list[tuple[MigProfile, int]]:
    """All placements of these profiles with their starts: small profiles first, for who takes any."""
    by_size = sorted(profiles, key=lambda profile: (profile.size, profile.slices, profile.id))
    return [(profile, start) for profile in by_size for start in _starts(profile, profiles)]


def _starts(profile: MigProfile, profiles: tuple[MigProfile, ...]) -> list[int]:
    """Among equals from the end of the GPU, where the largest instance but the whole never lies."""
    larger = [other for other in profiles if (other.size, other.slices) > (profile.size, profile.slices)]
    return sorted(profile.starts, key=lambda start: (_spoilt(profile, start, larger), -start))


def _spoilt(profile: MigProfile, start: int, larger: list[MigProfile]) -> float:
    """How much of the places of larger instances is lost: the only place of a kind weighs as much as both of two."""
    return sum(
        sum(_overlap(profile, start, other, theirs) for theirs in other.starts) / len(other.starts)
        for other in larger
        if other.starts
    )


def _overlap(one: MigProfile, start: int, other: MigProfile, their_start: int) -> bool:
    return start < their_start + other.size and their_start < start + one.size
