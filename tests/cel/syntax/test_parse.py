"""Text becomes the tree that Kubernetes' parser makes of it, or a message that says where it is wrong."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cel.shapes import nodes, shape
from gpusharing.cel.errors import CompileError
from gpusharing.cel.syntax.parse import parse
from gpusharing.cel.tree import Node

NEWEST = 37

TREES = [
    # Precedence.
    ("1 + 2 * 3", "(_+_ 1 (_*_ 2 3))"),
    ("1 - 2 - 3", "(_-_ (_-_ 1 2) 3)"),
    ("(1 + 2) % 3", "(_%_ (_+_ 1 2) 3)"),
    ("1 / 2 < 3 == true", "(_==_ (_<_ (_/_ 1 2) 3) bool:True)"),
    ("1 in [1] in [true]", "(@in (@in 1 [1]) [bool:True])"),
    ("a || b && c", "(_||_ a (_&&_ b c))"),
    ("a ? b : c ? d : e", "(_?_:_ a b (_?_:_ c d e))"),
    ("a || b ? c && d : e", "(_?_:_ (_||_ a b) (_&&_ c d) e)"),
    ("!a.b", "(!_ a.b)"),
    ("-a[0]", "(-_ (_[_] a 0))"),
    # Chains of && and || become trees of little depth.
    ("a && b && c", "(_&&_ (_&&_ a b) c)"),
    ("a && b && c && d", "(_&&_ (_&&_ a b) (_&&_ c d))"),
    ("a || b || c || d || e", "(_||_ (_||_ (_||_ a b) c) (_||_ d e))"),
    # Signs. The second of an even number takes the first one away; a single one belongs to the number.
    ("-1", "-1"),
    ("- 1", "-1"),
    ("--1", "1"),
    ("---1", "(-_ 1)"),
    ("-(1)", "(-_ 1)"),
    ("-(-1)", "(-_ -1)"),
    ("1 - -1", "(_-_ 1 -1)"),
    ("1--1", "(_-_ 1 -1)"),
    ("a -1", "(_-_ a 1)"),
    ("-1u", "(-_ Uint:1)"),
    ("-.5", "-0.5"),
    ("!!a", "a"),
    ("!!!a", "(!_ a)"),
    # Members.
    ("a.b.c", "a.b.c"),
    (".a.b", ".a.b"),
    (". a . b", ".a.b"),
    ("a.?b", "(_?._ a 'b')"),
    ("a. ? b", "(_?._ a 'b')"),
    ("a[?0].?b[c]", "(_[_] (_?._ (_[?_] a 0) 'b') c)"),
    ("a.`b-c/d.e f`", "a.b-c/d.e f"),
    ("a.?`b`", "(_?._ a 'b')"),
    ("a.if", "a.if"),
    ("f()", "(f)"),
    (".f(1)", "(f 1)"),
    ("a.f(1, 2).g()", "a.(f 1 2).(g)"),
    ("a.b.f()", "a.b.(f)"),
    # What has a namespace is called on nothing.
    ("optional.of(1)", "(optional.of 1)"),
    (".optional.of(1)", "(optional.of 1)"),
    ("a.optional.of(1)", "a.optional.(of 1)"),
    ("sets.contains([1], [])", "(sets.contains [1] [])"),
    ("math.greatest(1, 2)", "math.(greatest 1 2)"),
    # Lists, maps, messages.
    ("[]", "[]"),
    ("[,]", "[]"),
    ("[1]", "[1]"),
    ("[1, 2,]", "[1 2]"),
    ("[?a, b, ?c]", "[?a b ?c]"),
    ("{}", "{}"),
    ("{,}", "{}"),
    ("{1: 2, ?'a': b,}", "{1:2 ?'a':b}"),
    ("a.B{}", "a.B{}"),
    (".a.B{,}", ".a.B{}"),
    ("B{c: 1, ?d: 2,}.e", "B{c=1 ?d=2}.e"),
    ("B{`c`: 1}", "B{c=1}"),
    # Keywords are no names; words that begin like them are.
    ("inn", "inn"),
    ("trueish", "trueish"),
    ("nullable", "nullable"),
    ("r", "r"),
    ("b", "b"),
    ("a?b:c", "(_?_:_ a b c)"),
    ("a?.5:.6", "(_?_:_ a 0.5 0.6)"),
    # Space and comments.
    ("a//c", "a"),
    ("//c\na //d\n//e\n+b", "(_+_ a b)"),
    ("a // c\r + b", "a"),
    ("\t\n\f\r a", "a"),
    ("'// no comment'", "'// no comment'"),
]


@pytest.mark.parametrize(("text", "tree"), TREES)
def test_an_expression_has_its_tree(text: str, tree: str) -> None:
    assert shape(parse(text, NEWEST)) == tree


# Text, offset, and a part of the message.
REFUSED = [
    ("", 0, "the expression ends where a value should be"),
    ("  // c", 6, "the expression ends where a value should be"),
    ("1 +", 3, "the expression ends where a value should be"),
    ("(1", 2, "the expression ends where an operator or ')' should be"),
    ("1)", 1, "unexpected ')' where an operator or the end should be"),
    ("[1", 2, "']'"),
    ("[1,,]", 3, "unexpected ','"),
    ("{1}", 2, "':'"),
    ("{1: 2", 5, "'}'"),
    ("f(1,)", 4, "unexpected ')'"),
    ("[?a b]", 4, "unexpected 'b' where an operator or ']' should be"),
    ("{1: a ? b : c d}", 14, "unexpected 'd' where an operator or '}' should be"),
    ("{1: a ? b d}", 10, "unexpected 'd' where an operator or ':' should be"),
    ("{1: 2, 3 d}", 9, "unexpected 'd' where an operator or ':' should be"),
    ("a.?b c", 5, "unexpected 'c' where an operator or the end should be"),
    ("f(a b)", 4, "unexpected 'b' where an operator or ')' should be"),
    ("a ? b", 5, "':'"),
    ("a b", 2, "unexpected 'b'"),
    ("a.", 2, "the name of a field"),
    ("a.in", 2, "unexpected 'in' where the name of a field should be"),
    ("a.true", 2, "unexpected 'true'"),
    ("a.`b`()", 5, "unexpected '('"),
    ("`a`", 0, "unexpected '`a`'"),
    ("a.``", 2, "unexpected '`'"),
    ("-!a", 1, "unexpected '!'"),
    ("a = b", 2, "equality is written =="),
    ("a & b", 2, "'and' is written &&"),
    ("a | b", 2, "'or' is written ||"),
    ("a and b", 2, "'and' is written &&"),
    ("a OR b", 2, "'OR' is written ||"),
    ("not a", 4, "'not' is written !"),
    ("a b.c", 2, "unexpected 'b'"),
    ("1..2", 2, "unexpected '.2'"),
    ("'a' 'b'", 4, "unexpected \"'b'\""),
    ("rb'a'", 2, "unexpected"),
    ("a\0", 1, "unexpected '\\x00'"),
    ("a\v", 1, "unexpected '\\x0b'"),
    ("\N{ZERO WIDTH NO-BREAK SPACE}a", 0, "unexpected"),
    ("\N{LATIN SMALL LETTER E WITH ACUTE}", 0, "unexpected"),
    ("a\ud800", 1, "no Unicode character"),
    ("'a", 0, "string without a closing '"),
    ("'a\n'", 0, "string without a closing '"),
    ("a + '''b", 6, "string without a closing"),
    ("1 == '\\q'", 6, "unknown escape sequence \\q; a backslash is written \\\\"),
    ('"\\400"', 1, "unknown escape sequence \\4"),
    ("if", 0, "'if' is a reserved word"),
    ("a + while(1)", 4, "'while' is a reserved word"),
    (".for", 1, "'for' is a reserved word"),
    ("f(a){}", 4, "unexpected '{'"),
    ("(a){}", 3, "unexpected '{'"),
    ("a.?b{}", 4, "unexpected '{'"),
    ("a.`b`{}", 5, "unexpected '{'"),
    ("B{1: 2}", 2, "unexpected '1'"),
    ("1\n + \n + 2", 7, "unexpected '+'"),
]


@pytest.mark.parametrize(("text", "offset", "message"), REFUSED)
def test_what_is_no_expression_is_refused_with_its_place(text: str, offset: int, message: str) -> None:
    with pytest.raises(CompileError) as refusal:
        parse(text, NEWEST)
    assert (refusal.value.offset, refusal.value.expression) == (offset, text)
    assert message in refusal.value.message


def test_of_several_errors_the_first_in_the_text_is_named() -> None:
    with pytest.raises(CompileError) as refusal:
        parse("[1].all(2, while) && 99999999999999999999 > 1", NEWEST)
    assert refusal.value.offset == 8


@pytest.mark.parametrize("text", ["device.`driver`", "device.?`driver`", "google.protobuf.Int64Value{`value`: 1}"])
def test_names_in_backticks_are_understood_since_1_37(text: str) -> None:
    parse(text, 37)
    with pytest.raises(CompileError, match=r"since Kubernetes 1\.37"):
        parse(text, 36)


# Where a node stands is where cel-go says: at the operator, the opening bracket, the dot.
PLACES = [
    ("a + b", {"(_+_ a b)": 2, "a": 0, "b": 4}),
    ("a.b(c)", {"a.(b c)": 3, "a": 0, "c": 4}),
    ("f(x)[0]", {"(f x)": 1, "(_[_] (f x) 0)": 4}),
    ("a.b.?c", {"a.b": 1, "(_?._ a.b 'c')": 3, "'c'": 5}),
    ("a ? b : c", {"(_?_:_ a b c)": 2}),
    ("!!!a", {"(!_ a)": 0}),
    ("- 1", {"-1": 0}),
    (".a", {".a": 1}),
    ("{'k': 1}", {"{'k':1}": 0, "'k':1": 4}),
    ("a.B{c: 1}", {"a.B{c=1}": 3}),
    ("'\N{GRINNING FACE}' + a", {"a": 6}),
    ("a && b && c", {"(_&&_ (_&&_ a b) c)": 7, "(_&&_ a b)": 2}),
]


@pytest.mark.parametrize(("text", "places"), PLACES)
def test_nodes_know_their_place(text: str, places: dict[str, int]) -> None:
    found = {shape(node): node.at for node in nodes(parse(text, NEWEST))}
    assert {key: found[key] for key in places} == places


# How often something can be put around something else until cel-go's parser gives up, as measured.
NESTING = [
    ("({})", 249),
    ("[{}]", 249),
    ("!({})", 249),
    ("-({})", 249),
    ("{{1: {}}}", 249),
    ("f({})", 249),
    ("1 + ({})", 124),
    ("1 * ({})", 124),
    ("({}) + 1", 249),
    ("1 == ({})", 124),
    ("({}) == 1", 249),
    ("true ? true : {}", 249),
    ("{} + 1", 250),
    ("{} == 1", 250),
    ("{}.a", 250),
    ("{}[0]", 250),
    ("{}.f()", 250),
    ("x[{}]", 249),
    ("x.f({})", 249),
    ("!!{}", 5000),
    ("true && {}", 1000),
    ("{} || true", 1000),
]


@pytest.mark.parametrize(("around", "deepest"), NESTING)
def test_nesting_ends_where_kubernetes_ends_it(around: str, deepest: int) -> None:
    before, after = around.format("\0").split("\0")

    def nested(times: int) -> str:
        return before * times + "x" + after * times

    parse(nested(deepest), NEWEST)
    if deepest <= 250:
        with pytest.raises(CompileError, match="more than 250 levels"):
            parse(nested(deepest + 1), NEWEST)


def test_ten_kibibytes_are_the_most() -> None:
    parse(f"'{'a' * 10238}'", NEWEST)
    with pytest.raises(CompileError, match=r"10,241 bytes long; Kubernetes takes 10,240"):
        parse(f"'{'a' * 10239}'", NEWEST)
    with pytest.raises(CompileError, match="bytes long"):
        parse("'" + "\N{GRINNING FACE}" * 2560 + "'", NEWEST)


@pytest.mark.parametrize(
    "deep",
    [
        pytest.param(lambda depth: "(" * 2 * depth, id="parentheses"),
        pytest.param(lambda depth: "[" * depth + "]" * depth, id="lists"),
        pytest.param(lambda depth: "-" * 2 * depth + "1", id="signs"),
        pytest.param(lambda depth: "a" + ".a" * depth, id="members"),
        pytest.param(lambda depth: "'" * 2 * depth, id="quotes"),
        pytest.param(lambda depth: "1+" * depth + "1", id="sums"),
    ],
)
def test_depth_costs_neither_stack_nor_time(deep: Callable[[int], str]) -> None:
    assert _seconds(deep(5000)) < 4 * _seconds(deep(2500))


def _seconds(text: str) -> float:
    def once() -> float:
        began = time.process_time()
        with contextlib.suppress(CompileError):
            parse(text, NEWEST)
        return time.process_time() - began

    return min(once() for _ in range(5))


_WORDS = st.sampled_from([
    "a", "b1", "device", "if", "in", "true", "null", "1", "-1", "1u", ".5", "'a'", 'r"\\"', "b'x'", '"""', "`a b`",
    "(", ")", "[", "]", "{", "}", ".", ",", ":", "?", "!", "-", "+", "*", "%", "/", "//", "\n", " ", "==", "<", "&&",
    "||", ".all(", "has(", "\\", "\N{GREEK SMALL LETTER ALPHA}",
])  # fmt: skip


@given(st.lists(_WORDS, max_size=25).map("".join) | st.text(max_size=30))
def test_whatever_the_text_there_is_a_tree_or_a_refusal_within_it(text: str) -> None:
    outcome = parsed_or_refused(text)
    if isinstance(outcome, CompileError):
        assert 0 <= outcome.offset <= len(text)
        assert outcome.explained()
    else:
        ids = [node.id for node in nodes(outcome)]
        assert len(set(ids)) == len(ids)
        assert all(0 <= node.at < len(text) for node in nodes(outcome))


def parsed_or_refused(text: str) -> Node | CompileError:
    try:
        return parse(text, NEWEST)
    except CompileError as refusal:
        return refusal


_FIRST_USE = """
import sys, threading
limit = sys.getrecursionlimit()
from gpusharing.cel.syntax.parse import parse
assert "lark" not in sys.modules
found = []
threads = [threading.Thread(target=lambda: found.append(parse("a + b", 37))) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 8 and all(each == found[0] for each in found)
assert "lark" in sys.modules and not any(name.startswith("celpy") for name in sys.modules)
assert sys.getrecursionlimit() == limit
"""


def test_lark_is_loaded_by_the_first_expression_and_cel_python_never() -> None:
    subprocess.run([sys.executable, "-c", _FIRST_USE], check=True, timeout=60)
