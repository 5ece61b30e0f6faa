"""The device: its attributes and capacities in every way that they can be reached."""

from cel.generator import device_names as names
from cel.generator.grammar import rule, rules
from cel.generator.kinds import BOOL, DYN, Kind
from cel.generator.quoting import plain, quoted
from cel.generator.text import Part, Piece
from cel.generator.writing import Writer

rules("""
2 string: device.driver
1.5 bool: device.allowMultipleAllocations
0.5 ~map(string, map(string, dyn)): device.attributes
0.5 map(string, map(string, quantity)): device.capacity
0.5 bool: ($domain in device.attributes)
0.3 bool: ($domain in device.capacity)
0.5 bool: has(device.attributes[$domain].model)
0.3 bool: has(device.attributes[$domain].nope)
0.1 bool: has(device.attributes.nope)
0.1 bool: has(device.attributes.nope.deeper)
0.1 bool: has(device.driver)
0.02 bool: has(device.nope)
0.1 bool: has(device.allowMultipleAllocations)
0.3 bool: device.attributes[?$domain].hasValue()
0.2 bool: device.attributes.?gpu.hasValue()
0.1 string: device.?driver.orValue($string)
0.1 ~dyn: device.attributes[?$domain].?model.orValue($A)
0.2 bool: device.attributes.exists($k:string, $bool)
0.1 bool: device.attributes.all($k:string, $v:map(string, dyn), $bool)
0.3 ~dyn: cel.bind(dra, device.attributes[$domain], dra.model)
0.2 bool: cel.bind(dra, device.attributes[$domain], dra.migCapable && dra.index < $int)
0.2 domain: $string
domain: device.driver
""")


@rule("domain", 5, leaf=True)
def _domain(writer: Writer, _kind: Kind, _fuel: int) -> str:
    random = writer.random
    domain = writer.driver if random.random() < 0.85 else random.choice((*names.DOMAINS, "nope", ""))
    if random.random() < 0.04:
        return f"({plain(domain[:4])} + {plain(domain[4:])})"
    return quoted(random, domain) if random.random() < 0.05 else plain(domain)


@rule("A", 0.15, leaf=True, dynamic=True)
def _attribute(writer: Writer, kind: Kind, _fuel: int) -> Piece:
    random = writer.random
    name = random.choice(names.of(kind) if random.random() < 0.93 else names.ALL)
    map_of_domain: list[Part] = ["device.attributes[", _piece("domain", _domain(writer, kind, 0)), "]"]
    roll = random.random()
    if roll < 0.75:
        return Piece(kind, [*map_of_domain, f".{name}"])
    if roll < 0.85:
        return Piece(kind, [*map_of_domain, f"[{plain(name)}]"])
    if roll < 0.87:
        return Piece(kind, [*map_of_domain, f".`{name}`"])
    if kind.name in {"optional", "dyn"} and random.random() < 0.5:
        return Piece(kind, [*map_of_domain, f".?{name}"])
    if roll < 0.95:
        return Piece(kind, [*map_of_domain, f".?{name}.orValue(", writer.leaf(kind), ")"])
    return Piece(kind, [*map_of_domain, f"[?{plain(name)}].orValue(", writer.leaf(kind), ")"])


for _kind in (*names.BY_KIND, DYN):
    rule(_kind, 1.5 if _kind == BOOL else 3, leaf=True, dynamic=True)(_attribute)


@rule("dynamic(A)", leaf=True)
def _attribute_of_no_known_type(writer: Writer, kind: Kind, fuel: int) -> Piece:
    return _attribute(writer, kind.arguments[0], fuel)


@rule("quantity", 3, leaf=True)
def _capacity(writer: Writer, kind: Kind, _fuel: int) -> Piece:
    random = writer.random
    name = random.choice(names.CAPACITIES)
    domain = _piece("domain", _domain(writer, kind, 0))
    access = f".{name}" if random.random() < 0.85 else f"[{plain(name)}]"
    return Piece(kind, ["device.capacity[", domain, "]", access])


@rule("map(string, dyn)", 4, leaf=True)
def _map_of_domain(writer: Writer, kind: Kind, _fuel: int) -> Piece:
    return Piece(kind, ["device.attributes[", _piece("domain", _domain(writer, kind, 0)), "]"])


@rule("map(string, quantity)", 4, leaf=True)
def _capacities_of_domain(writer: Writer, kind: Kind, _fuel: int) -> Piece:
    return Piece(kind, ["device.capacity[", _piece("domain", _domain(writer, kind, 0)), "]"])


@rule("bool", 1)
def _has(writer: Writer, kind: Kind, _fuel: int) -> Piece:
    name = writer.random.choice(names.ALL)
    return Piece(kind, ["has(device.attributes[", _piece("domain", _domain(writer, kind, 0)), f"].{name})"])


@rule("bool", 0.7)
def _in(writer: Writer, kind: Kind, _fuel: int) -> Piece:
    name = writer.random.choice(names.ALL)
    domain = _piece("domain", _domain(writer, kind, 0))
    return Piece(kind, [f"({plain(name)} in device.attributes[", domain, "])"])


def _piece(kind: str, text: str) -> Piece:
    return Piece(Kind(kind), [text])
