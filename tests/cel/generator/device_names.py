"""Names of attributes, by the kind that they usually have, so that expressions and devices meet."""

from typing import Final

from cel.generator.kinds import Kind, parse

DOMAINS: Final = ("gpu.nvidia.com", "dra.example.com", "resource.kubernetes.io")
DRIVERS: Final = DOMAINS[:2]

_STRING: Final = ("model", "brand", "uuid", "address", "network", "endpoint", "ttl", "born", "size", "label")
_INT: Final = ("index", "numa", "count")
BY_KIND: Final = {
    parse(kind): names
    for kind, names in {
        "string": _STRING,
        "int": _INT,
        "bool": ("healthy", "migCapable"),
        "semver": ("driverVersion", "cuda"),
        "list(string)": ("profiles", "tags"),
        "list(int)": ("numaNodes", "ports"),
        "list(bool)": ("flags",),
        "list(semver)": ("versions",),
        # Texts of a certain form, and what often has it.
        "index": _INT,
        "pattern": ("brand", "label"),
        "addressText": ("address",),
        "networkText": ("network",),
        "urlText": ("endpoint",),
        "versionText": ("label",),
        "quantityText": ("size",),
        "formatted": ("label", "uuid"),
        "zone": ("label",),
    }.items()
}
ALL: Final = ("nope", "Model", "in2", *sorted({name for names in BY_KIND.values() for name in names}))
CAPACITIES: Final = ("memory", "memory", "cores", "bandwidth", "big", "tiny", "nope")


def of(kind: Kind) -> tuple[str, ...]:
    return BY_KIND.get(kind, ALL)
