"""Numbers, strings, bytes and null, in every spelling; well-known messages."""

from cel.generator import values
from cel.generator.grammar import rule, rules
from cel.generator.kinds import Kind
from cel.generator.quoting import quoted, quoted_bytes
from cel.generator.writing import Writer

rules("""
bool: true
bool: false
null: null
0.2 null: google.protobuf.NullValue.NULL_VALUE
0.1 int: google.protobuf.Int64Value{value: $int}
0.05 int: google.protobuf.Int32Value{value: $int}
0.05 uint: google.protobuf.UInt64Value{value: $uint}
0.1 bool: google.protobuf.BoolValue{value: $bool}
0.1 string: google.protobuf.StringValue{value: $string}
0.05 bytes: google.protobuf.BytesValue{value: $bytes}
0.1 double: google.protobuf.DoubleValue{value: $double}
0.05 duration: google.protobuf.Duration{seconds: $int}
0.05 timestamp: google.protobuf.Timestamp{seconds: $int}
""")

_DOUBLES = (
    "0.0", "1.0", "1.5", "2.0", "-1.5", ".5", "3.14159", "1e3", "1E3", "1e-3", "2.5e+10", "1e308", "1e-320",
    "1.7976931348623157e308", "-0.0", "9007199254740993.0", "9223372036854775807.0", "9223372036854775808.0", "1e19",
    "0.1", "0.30000000000000004", "100.0", "1e15", "1e16", "1e21", "1e400", "18446744073709551616.0",
    "-9223372036854775809.0", "123456789.125", "00.5", "0e0", "80.0",
)  # fmt: skip
_BYTES = (b"", b"a", b"abc", b"\xff\xfe", b"\x00", "héllo".encode(), b"\xc3\x28", "😀".encode(), b"\"'\\", b"a\nb")
_ODD = (
    "'''a\rb'''", "r'''a\r\nb'''", "9223372036854775808", "-9223372036854775809", "18446744073709551616u", "-1u",
    "0xFFFFFFFFFFFFFFFFF", "0b101", "0o17", "1__0", "1.", "1.e3", "1e", "0x", "5uu", r'"\q"', r'"\ud800"',
    r'"\U00110000"', r'"\x1"', r'"\08"', r'"\400"', r"b'\u0041'", "'a\nb'", '"unclosed', "b'ä'", r'"\u12"', "1.5u",
    "0x1p3", ".e1",
)  # fmt: skip


@rule("int", 4, leaf=True)
def _int(writer: Writer, _kind: Kind, _fuel: int) -> str:
    number = writer.random.choice(values.INTEGERS) if writer.random.random() < 0.5 else writer.random.randint(-3, 12)
    return _in_some_base(writer, number)


@rule("uint", 4, leaf=True)
def _uint(writer: Writer, _kind: Kind, _fuel: int) -> str:
    number = abs(writer.random.choice((*values.INTEGERS, 2**64 - 1, 2**63)))
    return _in_some_base(writer, number) + writer.random.choice("uuU")


@rule("double", 4, leaf=True)
def _double(writer: Writer, _kind: Kind, _fuel: int) -> str:
    if writer.random.random() < 0.2:
        return f"{writer.random.uniform(-10, 10):.{writer.random.randint(1, 12)}f}"
    return writer.random.choice(_DOUBLES)


@rule("string", 3, leaf=True)
def _string(writer: Writer, _kind: Kind, _fuel: int) -> str:
    return quoted(writer.random, writer.random.choice(values.WORDS))


@rule("bytes", 3, leaf=True)
def _bytes(writer: Writer, _kind: Kind, _fuel: int) -> str:
    return quoted_bytes(writer.random, writer.random.choice(_BYTES))


@rule("A", 0.003, leaf=True)
def _odd(writer: Writer, _kind: Kind, _fuel: int) -> str:
    return writer.random.choice(_ODD)


def _in_some_base(writer: Writer, number: int) -> str:
    if writer.random.random() < 0.9:
        return str(number)
    sign = "-" if number < 0 else ""
    return writer.random.choice((f"{sign}0x{abs(number):x}", f"{sign}0x{abs(number):X}", f"{sign}00{abs(number)}"))
