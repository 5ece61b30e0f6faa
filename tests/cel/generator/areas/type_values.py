"""Types as values."""

from cel.generator.grammar import rules

rules("""
1 type: type($A)
0.5 type: type($dyn)
0.1 type: type($type)
1 bool: (type($A) == $type)
0.7 bool: (type($dyn) == $type)
0.3 bool: (type($A) != type($B))
type: int
type: uint
type: double
type: bool
type: string
type: bytes
type: list
type: map
type: null_type
type: type
0.05 type: dyn
0.5 type: optional_type
0.5 type: google.protobuf.Duration
0.5 type: google.protobuf.Timestamp
0.02 type: kubernetes.Quantity
0.02 type: kubernetes.Semver
0.02 type: kubernetes.URL
0.02 type: net.IP
0.02 type: net.CIDR
0.02 type: kubernetes.DRADevice
""")
