"""What people write that is none: spoils a tree at one place."""

import re
from random import Random

from cel.generator.kinds import Kind
from cel.generator.text import Piece
from cel.generator.writing import Writer

_UNKNOWN = (
    "foo", "devices", "device.foo", "device.driver.name", "request", "authorizer", "cel", "x", "@result",
    "math.greatest(1, 2)", "math.abs(-1)", "math.isNaN(1.0)", "base64.encode(b'a')", "base64.decode('YQ==')",
    "'abc'.reverse()", "regex.replace('a', 'b', 'c')", "regex.extract('a', 'a')", "'\"a\"'.unquote()",
    "cel.block([1], cel.index(0))", "proto.hasExt(1, 2)", "[1, 2].first", "{'a': 1}.keys()",
    "authorizer.path('/').check('get').allowed()", "device.attributes.size", "jsonpatch.escapeKey('a')",
    "quantity('1').sign()", "'a'.matches()", "size()", "size(1)", "size('a', 'b')", "cel.bind(a, 1)",
    "cel.bind(1, 2, 3)", "has(1)", "has(device)", "[1].all(x.y, true)", "[1].map(x)", "[1].map(1, 2)",
    "[1].exists(x, 1)", "{'a': 1}.filter(k, 1)", "'abc'.all(c, true)", "duration(1.5)", "timestamp('x')",
    "duration('x')", "'a'.matches('(')", "Foo{a: 1}", "Foo{}", "google.protobuf.Int64Value{nope: 1}", "[1, 'a']",
    "{'a': 1, 2: 3}", "{'a': 1, 'b': 'c'}", "1 + 'a'", "!1", "-'a'", "-true", "1 == 1.0", "1 && true", "null == 1",
    "as", "break", "const", "else", "for", "function", "if", "import", "let", "loop", "package", "namespace", "return",
    "var", "void", "while", "in", "device.attributes[1]", "device.capacity['a'].b > 1",
    "device.capacity['a'].b == '1Gi'", "int('x')", "[1][0].a", "a.b.c.d", ".device.driver", ".foo", "optional.of()",
    "optional.some(1)", "1.optMap(x, x)", "transformList([1], i, v, v)", "[1].transformMapEntry(i, v, v)", "dyn()",
    "[1].sortBy(x)", "[1].sortBy(x.y, 1)", "[[1]].sortBy(x, x)", "[1].sort(2)", "lists.range()",
    "sets.union([1], [2])", "ip.family('::1')", "format.foo()", "semver('1.2.3').build()", "type()",
    "[1].transformList(i, i, v, v)", "[1].all(i, v, w, true)", "'%s'.format(1)", "'a' in 'abc'",
    "device.attributes.exists(k)", "device.attributes['a'].b.c.d()", "[1].existsOne(x, true)",
    "{'a': 1}.exists_one(a, b)", "[1].all(device, true)",
)  # fmt: skip
_TOKENS = (
    "(", ")", "[", "]", "{", "}", ",", ".", "?", ":", "&&", "||", "!", "==", "in", "1", '"a"', "+", "-", "&", "|", "=",
    "@", "#", "$", ";", "\\", "`", "'", "a b", "'''", "é", "//",
)  # fmt: skip
_TOKEN = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\w+|\s+|[^\w\s]")


def spoil(writer: Writer, tree: Piece) -> Piece:
    random = writer.random
    place = random.choice(list(tree.pieces()))
    match random.randrange(4):
        case 0:
            return tree.replaced(place, Piece(place.kind, [random.choice(_UNKNOWN)]))
        case 1:
            return tree.replaced(place, writer.write(writer.any_kind(), 2))
        case 2:
            return Piece(Kind("bool"), [_with_other_tokens(random, str(tree))])
        case _:
            return tree.replaced(place, Piece(place.kind, [_with_other_tokens(random, str(place))]))


def _with_other_tokens(random: Random, text: str) -> str:
    tokens = _TOKEN.findall(text)
    at = random.randrange(len(tokens) + 1)
    until = min(len(tokens), at + random.randint(0, 2))
    put = random.choices(_TOKENS, k=random.randint(0, 1)) if at != until else [random.choice(_TOKENS)]
    if random.random() < 0.2:
        put = tokens[at:until] * 2
    return "".join([*tokens[:at], *put, *tokens[until:]])
