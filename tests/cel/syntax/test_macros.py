"""Macros stand for what cel-go writes in their place."""

import time

import pytest

from cel.shapes import nodes, shape
from gpusharing.cel.errors import CompileError
from gpusharing.cel.syntax.parse import parse

NEWEST = 37

MACROS = [
    ("has(a.b)", "a.b!"),
    ("has(a.b.c)", "a.b.c!"),
    ("has(a[0].b)", "(_[_] a 0).b!"),
    ("has(has(a.b))", "a.b!"),
    (
        "a.all(x, x > 1)",
        "<all x in a; @result = bool:True; (@not_strictly_false @result); (_&&_ @result (_>_ x 1)); @result>",
    ),
    (
        "a.exists(x, p)",
        "<exists x in a; @result = bool:False; (@not_strictly_false (!_ @result)); (_||_ @result p); @result>",
    ),
    (
        "a.exists_one(x, p)",
        "<exists_one x in a; @result = 0; bool:True; (_?_:_ p (_+_ @result 1) @result); (_==_ @result 1)>",
    ),
    ("a.map(x, f)", "<map x in a; @result = []; bool:True; (_+_ @result [f]); @result>"),
    ("a.map(x, p, f)", "<map x in a; @result = []; bool:True; (_?_:_ p (_+_ @result [f]) @result); @result>"),
    ("a.filter(x, p)", "<filter x in a; @result = []; bool:True; (_?_:_ p (_+_ @result [x]) @result); @result>"),
    (
        "a.all(i, x, p)",
        "<all i,x in a; @result = bool:True; (@not_strictly_false @result); (_&&_ @result p); @result>",
    ),
    (
        "a.exists(i, x, p)",
        "<exists i,x in a; @result = bool:False; (@not_strictly_false (!_ @result)); (_||_ @result p); @result>",
    ),
    (
        "a.existsOne(i, x, p)",
        "<exists_one i,x in a; @result = 0; bool:True; (_?_:_ p (_+_ @result 1) @result); (_==_ @result 1)>",
    ),
    ("a.transformList(i, x, f)", "<transform_list i,x in a; @result = []; bool:True; (_+_ @result [f]); @result>"),
    (
        "a.transformList(i, x, p, f)",
        "<transform_list i,x in a; @result = []; bool:True; (_?_:_ p (_+_ @result [f]) @result); @result>",
    ),
    (
        "a.transformMap(k, v, f)",
        "<transform_map k,v in a; @result = {}; bool:True; (cel.@mapInsert @result k f); @result>",
    ),
    (
        "a.transformMap(k, v, p, f)",
        "<transform_map k,v in a; @result = {}; bool:True; (_?_:_ p (cel.@mapInsert @result k f) @result); @result>",
    ),
    (
        "a.transformMapEntry(k, v, {v: k})",
        "<transform_map_entry k,v in a; @result = {}; bool:True; (cel.@mapInsert @result {v:k}); @result>",
    ),
    (
        "a.transformMapEntry(k, v, p, {v: k})",
        (
            "<transform_map_entry k,v in a; @result = {}; bool:True; "
            "(_?_:_ p (cel.@mapInsert @result {v:k}) @result); @result>"
        ),
    ),
    ("cel.bind(x, a, x + 1)", "<bind #unused in []; x = a; bool:False; x; (_+_ x 1)>"),
    (
        "a.optMap(x, f)",
        "(_?_:_ a.(hasValue) (optional.of <opt_map #unused in []; x = a.(value); bool:False; x; f>) (optional.none))",
    ),
    (
        "a.optFlatMap(x, f)",
        "(_?_:_ a.(hasValue) <opt_flat_map #unused in []; x = a.(value); bool:False; x; f> (optional.none))",
    ),
    (
        "a.sortBy(x, f)",
        (
            "<bind #unused in []; @__sortBy_input__ = a; bool:False; @__sortBy_input__; "
            "@__sortBy_input__.(@sortByAssociatedKeys "
            "<map x in @__sortBy_input__; @result = []; bool:True; (_+_ @result [f]); @result>)>"
        ),
    ),
]


@pytest.mark.parametrize(("text", "tree"), MACROS)
def test_a_macro_is_written_out(text: str, tree: str) -> None:
    root = parse(text, NEWEST)
    assert shape(root) == tree
    ids = [node.id for node in nodes(root)]
    assert len(set(ids)) == len(ids)


def test_what_a_macro_adds_stands_at_its_bracket() -> None:
    root = parse("abc.map(x, y)", NEWEST)
    places = {shape(node): node.at for node in nodes(root)}
    assert {places[each] for each in ("@result", "[]", "[y]", "(_+_ @result [y])", shape(root))} == {7}
    assert places["y"] == 11


ORDINARY_CALLS = [
    "all(x, p)",
    "a.all(x)",
    "a.all(x, y, z, p)",
    "a.has(b)",
    "has(a.b, c)",
    ".has(a.b)",
    "a.existsOne(x, p)",
    "a.map(x)",
    "a.filter(x, p, f)",
    "a.transformMap(k, v)",
    "a.bind(x, 1, 2)",
    ".cel.bind(x, 1, 2)",
    "cel.bind(x, 1)",
    "cel.x.bind(x, 1, 2)",
    "a.optMap(x)",
]


@pytest.mark.parametrize("text", ORDINARY_CALLS)
def test_other_calls_of_the_same_names_are_calls(text: str) -> None:
    assert "<" not in shape(parse(text, NEWEST))
    assert "!" not in shape(parse(text, NEWEST))


# Text, offset, and a part of the message.
BAD_USES = [
    ("has(a)", 4, "has() takes the selection of a field, as in has(a.b)"),
    ("has(a.?b)", 5, "has() takes"),
    ("has(a['b'])", 5, "has() takes"),
    ("[1].all(2, p)", 8, "the first argument of all() must be a plain name"),
    ("[1].all(a.b, p)", 9, "the first argument of all()"),
    ("[1].map(f(x), p)", 9, "the first argument of map()"),
    ("[1].filter('x', p)", 11, "the first argument of filter()"),
    ("[1].all(__result__, p)", 8, "__result__ cannot be the name of a variable"),
    ("[1].exists(i, 1, p)", 14, "the second argument of exists()"),
    ("[1].exists(i, i, p)", 14, "both variables of exists() have the name i"),
    ("[1].exists(i, __result__, p)", 14, "__result__ cannot be"),
    ("[1].transformList(1, x, p)", 18, "the first argument of transformList()"),
    ("cel.bind(1, 2, 3)", 9, "the first argument of bind()"),
    ("a.optMap(1, 2)", 9, "the first argument of optMap()"),
    ("a.optFlatMap(x.y, 2)", 14, "the first argument of optFlatMap()"),
    ("'a'.sortBy(x, x)", 0, "sortBy() is for lists"),
    ("{1: 2}.sortBy(x, x)", 0, "sortBy() is for lists"),
    ("[1].sortBy(1, x)", 11, "the first argument of sortBy()"),
    ("[1].sortBy(__result__, x)", 11, "__result__ cannot be"),
]


@pytest.mark.parametrize(("text", "offset", "message"), BAD_USES)
def test_a_macro_that_is_used_wrongly_says_how(text: str, offset: int, message: str) -> None:
    with pytest.raises(CompileError) as refusal:
        parse(text, NEWEST)
    assert refusal.value.offset == offset
    assert message in refusal.value.message


@pytest.mark.parametrize("text", ["[1].all(.x, true)", "cel.bind(__result__, 1, true)"])
def test_odd_names_that_kubernetes_accepts_are_accepted(text: str) -> None:
    parse(text, NEWEST)


def test_optionals_mapped_again_and_again_do_not_grow_without_bound() -> None:
    begin = time.process_time()
    with pytest.raises(CompileError, match="too long when its macros are written out"):
        parse("optional.of(1)" + ".optMap(x, x)" * 100, NEWEST)
    assert time.process_time() - begin < 0.5
