"""What is asked of a tenant, in CEL: what must hold for a policy `p`, and what is said where it does not.

They are put together here because several guards ask for the same. `p` is a policy's name, and what it says stands in
the variables `tenants` and `limits`.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from gpusharing.api import names, nvidia


class Check(NamedTuple):
    holds: str
    says: str
    """An expression, too."""


IS_RESTRICTED: Final = "p in variables.tenants"


def is_tenant(keys: str, labels: str) -> str:
    """Whether a namespace with these labels is one of its tenants."""
    return f"""\
variables.tenants[p].all(required,
  required[0] == 'In' ? required.exists(label, label in {labels}) :
  required[0] == 'NotIn' ? !required.exists(label, label in {labels}) :
  required[0] == 'Exists' ? required[1] in {keys} : !(required[1] in {keys}))"""


def of_tenants(what: str) -> Check:
    says = (
        "'namespace ' + namespaceObject.metadata.name + ' is not one of its tenants (spec.tenants.namespaces); ' + "
        f"{what} + ' is reserved for them'"
    )
    return Check(f"!({IS_RESTRICTED}) ||\n{is_tenant('variables.keys', 'variables.labels')}", says)


def no_admin_access(requests: str) -> Check:
    """Of a GPU that others hold, that is: they would not be alone."""
    return Check(
        f"!({IS_RESTRICTED}) || {requests}.all(r, !has(r.adminAccess) || !r.adminAccess)",
        "'adminAccess is not allowed on devices reserved for tenants: remove it'",
    )


def _given(value: str) -> str:
    return f"has({value}) && {value} != null"


def _any(field: str) -> str:
    """Whether the policy leaves it open."""
    return f"!variables.limits[?p].?{field}.hasValue()"


def _limit(field: str) -> str:
    """Texts."""
    return f"variables.limits[p].{field}"


def _at_most(amount: str, field: str) -> str:
    """Of quantities. One below zero would make room for others."""
    read = f"quantity(string({amount}))"
    return f"({read}.compareTo(quantity({_limit(field)}[0])) <= 0 && !{read}.isLessThan(quantity('0')))"


_INTERVAL: Final = (
    f"({_given('s.timeSlicingConfig')} && {_given('s.timeSlicingConfig.interval')} ? "
    "s.timeSlicingConfig.interval : 'Default')"
)
_THREADS: Final = "m.defaultActiveThreadPercentage"
_MEMORY: Final = "m.defaultPinnedDeviceMemoryLimit"
_MEMORY_EACH: Final = "m.defaultPerDevicePinnedMemoryLimit"

# The variables that the checks below read.
SETTINGS: Final = {
    "sharing": f"variables.configs.filter(c, {_given('c.sharing')}).map(c, c.sharing)",
    "mps": f"variables.sharing.filter(s, {_given('s.mpsConfig')}).map(s, s.mpsConfig)",
}

SETTINGS_CHECKS: Final[Sequence[Check]] = (
    Check(
        f"""\
variables.configs.all(c, c.?apiVersion.orValue('') == '{nvidia.API_VERSION}' &&
  c.?kind.orValue('') in ['GpuConfig', 'MigDeviceConfig'] && c.all(k, k in ['apiVersion', 'kind', 'sharing']))""",
        f"'a config for {names.DRIVER} must be a GpuConfig or MigDeviceConfig of {nvidia.API_VERSION} with"
        " nothing but sharing'",
    ),
    Check(
        f"""\
variables.sharing.all(s, {_given("s.strategy")} &&
  (!has(s.timeSlicingConfig) || s.strategy == 'TimeSlicing') && (!has(s.mpsConfig) || s.strategy == 'MPS') &&
  s.all(k, k in ['strategy', 'timeSlicingConfig', 'mpsConfig']))""",
        "'sharing must have a strategy, and only the config of that strategy'",
    ),
    Check(
        f"{_any('gpuConfig')} || variables.sharing.all(s, s.?strategy.orValue('') in {_limit('gpuConfig')})",
        f"size({_limit('gpuConfig')}) == 0 ? 'a claim may not set sharing' : "
        f"'sharing.strategy may be ' + {_limit('gpuConfig')}.join(', ')",
    ),
    Check(
        f"""\
{_any("intervals")} || variables.sharing.all(s,
  s.?strategy.orValue('') != 'TimeSlicing' || {_INTERVAL} in {_limit("intervals")})""",
        f"size({_limit('intervals')}) == 0 ? 'a claim may not set an interval' : "
        f"'timeSlicingConfig.interval may be ' + {_limit('intervals')}.join(', ') + ' (absent, it is Default)'",
    ),
    Check(
        f"{_any('maxThreads')} || variables.mps.all(m,\n  !({_given(_THREADS)}) || {_at_most(_THREADS, 'maxThreads')})",
        f"'mpsConfig.defaultActiveThreadPercentage may be at most ' + {_limit('maxThreads')}[0]",
    ),
    Check(
        f"""\
{_any("maxMemory")} || variables.mps.all(m,
  (!({_given(_MEMORY)}) || {_at_most(_MEMORY, "maxMemory")}) &&
  (!({_given(_MEMORY_EACH)}) || {_MEMORY_EACH}.all(k, {_at_most(_MEMORY_EACH + "[k]", "maxMemory")})))""",
        f"'limits of memory in mpsConfig may be at most ' + {_limit('maxMemory')}[0]",
    ),
)

_LIMITS: Final = {"shares": "maxShares", "memory": "maxMemory", "threads": "maxThreads"}
_UNITS: Final = {"shares": "", "memory": "", "threads": " percent"}

# Of a whole GPU, an amount is only what it must have at least.
ASKING: Final = {
    "asking": "variables.mine.filter(r, "
    "(r.deviceClassName.endsWith('-timeslicing') || r.deviceClassName.endsWith('-mps')) && "
    f"{_given('r.capacity')} && {_given('r.capacity.requests')})"
}


def requested(asking: str) -> Sequence[Check]:
    """By request, as far as it says something."""

    def check(capacity: str, limit: str) -> Check:
        amount = f"r.capacity.requests.{capacity}"
        within = f"{asking}.all(r, !has({amount}) || {_at_most(amount, limit)})"
        return _amounts(capacity, within, "a request")

    return [check(capacity, limit) for capacity, limit in _LIMITS.items()]


def allocated(results: str) -> Sequence[Check]:
    """By device: several requests of a claim may have got the same one."""

    def check(capacity: str, limit: str) -> Check:
        consuming = f"{results}.filter(r, has(r.consumedCapacity) && has(r.consumedCapacity.{capacity}))"
        total = (
            f"{consuming}.filter(other, other.device == r.device && other.pool == r.pool)"
            f".map(other, quantity(string(other.consumedCapacity.{capacity})).asApproximateFloat()).sum()"
        )
        most = f"quantity({_limit(limit)}[0]).asApproximateFloat()"
        return _amounts(capacity, f"{consuming}.all(r, {total} <= {most})", "a claim")

    return [check(capacity, limit) for capacity, limit in _LIMITS.items()]


def _amounts(capacity: str, within: str, who: str) -> Check:
    limit = _LIMITS[capacity]
    says = f"'{who} may have at most ' + {_limit(limit)}[0] + '{_UNITS[capacity]} of the {capacity} of a shared GPU'"
    return Check(f"{_any(limit)} ||\n{within}", says)
