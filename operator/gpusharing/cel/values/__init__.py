"""Values at run time, and what can be done with each kind alone. A CEL value is one of these Python values:

bool, int (64 bits), `Uint`, float (double), str, bytes, None, list (never changed once made), dict (a map; its keys
are str, int, Uint or `BoolKey`, since Python's True and 1 are one key), `Quantity`, `Semver`, `Url`, `Ip`, `Cidr`,
`NamedFormat`, `Duration`, `Timestamp`, `Optional` and `TypeValue`. Python's own operators are no CEL semantics:
True == 1 there.
"""
