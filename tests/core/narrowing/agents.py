"""The agent in the model: the real function, and naive ones that the model must find faulty."""

from collections.abc import Callable
from dataclasses import replace

from gpusharing.api.names import Sharing
from gpusharing.core.devices.options import of_device
from gpusharing.core.publishing.entries import Entry, Standing
from gpusharing.core.publishing.narrowing import Answers, GpuPlan, GpuView, Holder, Timing, narrow

TIMING = Timing()
NOW = 100_000.0

Agent = Callable[[GpuView, int, Timing, Answers], GpuPlan]


def real(view: GpuView, menus: int, timing: Timing, answers: Answers) -> GpuPlan:
    [plan] = narrow([view], now=NOW, menus=menus, timing=timing, answers=answers)
    return plan


def drops_in_one_step(view: GpuView, menus: int, timing: Timing, answers: Answers) -> GpuPlan:
    """What should not be there goes at once."""
    plan = real(view, menus, timing, answers)
    entries = tuple(entry for entry in plan.publication.entries if entry.standing is Standing.OPEN)
    return replace(plan, publication=replace(plan.publication, entries=entries))


def whole_only_after_shares(view: GpuView, menus: int, timing: Timing, answers: Answers) -> GpuPlan:
    """Nothing is prepared any more, so the GPU is free: or is it?"""
    plan = real(view, menus, timing, answers)
    before = view.published.entries if view.published else ()
    shared = [entry for entry in before if of_device(view.gpu, entry.device).sharing is Sharing.TIME_SLICING]
    if menus or not shared or len(before) > 1 or any(not holder.admin for holder in view.prepared):
        return plan
    whole = next(option.device for option in view.menu if option.sharing is Sharing.EXCLUSIVE)
    entries = (Entry(device=whole, policy=view.policy),)
    return replace(plan, publication=replace(plan.publication, entries=entries))


def admin_takes(view: GpuView, menus: int, timing: Timing, answers: Answers) -> GpuPlan:
    """Whoever only looks is counted as a holder."""
    holders = {replace(holder, admin=False): holder for holder in view.prepared}
    answers = {taken: answers[holder] for taken, holder in holders.items() if holder in answers}
    plan = real(replace(view, prepared=tuple(holders)), menus, timing, answers)
    return replace(plan, confirm=tuple(holders[holder] for holder in plan.confirm))


def believes_what_is_prepared(view: GpuView, menus: int, timing: Timing, answers: Answers) -> GpuPlan:
    """Does not look whether a prepared claim still holds its device."""
    return real(view, menus, timing, dict.fromkeys(view.prepared, True))


def believes_what_is_allocated(view: GpuView, menus: int, timing: Timing, answers: Answers) -> GpuPlan:
    """What the operator saw allocated is as good as prepared."""
    seen = [Holder("seen", device) for device in sorted(view.allocated)]
    prepared = replace(view, prepared=(*view.prepared, *seen))
    return real(prepared, menus, timing, {**answers, **dict.fromkeys(seen, True)})


def needs_no_approval(view: GpuView, menus: int, timing: Timing, answers: Answers) -> GpuPlan:
    """What nobody has prepared is free to go."""
    closing = frozenset(entry.device for entry in (view.published.entries if view.published else ()))
    return real(replace(view, close_approved=closing), menus, timing, answers)


def forgets(view: GpuView, menus: int, timing: Timing, answers: Answers) -> GpuPlan:
    """Where nobody knows what was published, it begins with the least."""
    if view.published is not None:
        return real(view, menus, timing, answers)
    plan = real(view, menus, timing, answers)
    option = next(option for option in view.menu if option.sharing is Sharing.EXCLUSIVE)
    entries = (Entry(device=option.device, policy=view.policy, standing=Standing.OPEN),)
    return replace(plan, publication=replace(plan.publication, entries=entries))


def moves_at_once(view: GpuView, menus: int, timing: Timing, answers: Answers) -> GpuPlan:
    """It is where it belongs, wherever it was."""
    before = view.published
    if before is None or before.pool == view.pool:
        return real(view, menus, timing, answers)
    return real(replace(view, published=replace(before, pool=view.pool, entries=())), menus, timing, answers)


def does_not_look_back(view: GpuView, menus: int, timing: Timing, answers: Answers) -> GpuPlan:
    """With the last device it has left a pool, whatever the API has of it."""
    before = view.published
    if before is not None:
        view = replace(view, published=replace(before, vacated=not before.entries))
    return real(view, menus, timing, answers)


def forgets_where_it_was(view: GpuView, menus: int, timing: Timing, answers: Answers) -> GpuPlan:
    """Where nobody knows, it begins where the GPU belongs."""
    return real(replace(view, found_in=None), menus, timing, answers)


def takes_all_for_new(view: GpuView, menus: int, timing: Timing, answers: Answers) -> GpuPlan:
    """Whatever it was to move, it waits for nothing."""
    before = view.published
    if before is not None and view.is_moving:
        view = replace(view, published=replace(before, withheld=True))
    return real(view, menus, timing, answers)


def keeps_its_names(view: GpuView, menus: int, timing: Timing, answers: Answers) -> GpuPlan:
    """It offers what was withdrawn lately under its old name."""
    return real(replace(view, closed_names=()), menus, timing, answers)
