"""What Kubernetes refuses is explained, where it stands, and in few words."""

import pytest

from cel.checked_texts import refusal

# Expression, what the caret stands under and what follows, the message or a part of it.
REFUSED = [
    # Amounts.
    (
        'device.capacity["gpu.nvidia.com"].memory >= "16Gi"',
        '>= "16Gi"',
        'quantity is compared so: device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("16Gi")) >= 0',
    ),
    ('"16Gi" < device.capacity.d.memory', "<", 'quantity("16Gi").compareTo(device.capacity.d.memory) < 0'),
    ("device.capacity.d.memory == 17179869184", "==", "device.capacity.d.memory.compareTo(quantity(...)) == 0"),
    ("quantity('1') < quantity('2')", "<", 'quantity("1").compareTo(quantity("2")) < 0'),
    ("quantity('1') + quantity('2') == null", "+", 'write quantity("1").add(quantity("2"))'),
    ("quantity('1').sign() == 1", "()", "quantity.sign() is not possible; there is sign(quantity)"),
    ("semver('1.0.0') >= '2.0.0'", ">=", 'semver("1.0.0").compareTo(semver("2.0.0")) >= 0'),
    # Names.
    ("devise.driver == ''", "devise", "there is no 'devise'; did you mean 'device'?"),
    ("device.drivers == ''", ".drivers", "device has no field 'drivers'; did you mean 'driver'?"),
    ("device.x == ''", ".x", "it has driver, attributes, capacity, allowMultipleAllocations"),
    ("device.driver.x == ''", ".x", "string has no fields, so no 'x' either"),
    ("has(device.driver.x)", "(device", "string has no fields"),
    ("[1].all(x, y == x)", "y ==", "there is no 'y'"),
    ("[1].all(x, x == 1) && x == 1", "x == 1", "there is no 'x'"),
    ("size == 1", "size", "there is no 'size'"),
    # Functions.
    ("math.greatest(1, 2) == 1", "(1", "math.greatest is not available in device selectors"),
    ("base64.encode(b'a') == ''", "(b", "base64.encode is not available in device selectors"),
    ("authorizer.path('/').check('get').allowed()", "('/')", "authorizer.path is not available in device selectors"),
    ("device.driver.startWith('a')", "('a')", "there is no function 'startWith'; did you mean 'startsWith'?"),
    ("[1].existsOne(x, true)", "(x", "existsOne is used so: list.exists_one(x, condition)"),
    ("[1].all(x)", "(x)", "all is used so: list.all(x, condition)"),
    ("'a'.startsWith(1)", "(1)", "string.startsWith(int) is not possible; there is string.startsWith(string)"),
    ("size(1) == 1", "(1)", "size(int) is not possible; there is bytes.size(), list(A).size()"),
    ("lists.range('a') == []", "('a')", "lists.range(string) is not possible; there is lists.range(int)"),
    # Operators.
    ("1 + 'a' == 1", "+", "'+' cannot take int and string"),
    ("1 == 1.0", "==", "'==' cannot compare int and double"),
    ("device.driver == 1", "==", "'==' cannot compare string and int"),
    ("null == 1", "==", "'==' cannot compare null and int"),
    ("!1", "!", "'!' cannot take int"),
    ("-'a' == 1", "-", "'-' cannot take string"),
    ("1 && true", "1", "'&&' takes bool on both sides, not int"),
    ("true || device.driver", ".driver", "'||' takes bool on both sides, not string"),
    ("1 ? true : false", "?", "the condition of '? :' is int, not bool"),
    ("(true ? 1 : 'a') == 1", "?", "'? :' gives int or string, which must be of one type"),
    ("'a' in 'abc'", "in 'abc'", "'in' takes a list or a map on its right, not string"),
    ("1 in ['a']", "in ['a']", "no int is in a list(string)"),
    ("[1]['a'] == 1", "['a']", "list(int) has no index of type string"),
    ("device.driver[0] == 'a'", "[0]", "string has no elements to be taken out by index"),
    # Macros.
    ("device.driver.all(x, true)", ".driver", "all goes over a list or a map, not string"),
    ("[1].all(x, 1)", "1)", "'&&' takes bool on both sides, not int"),
    ("[1].filter(x, 1) == []", "(x, 1)", "the condition of '? :' is int, not bool"),
    ("[[1]].sortBy(x, x) == []", "(x", "sortBy cannot sort by list(int)"),
    ("{1: 2}.transformMapEntry(k, v, v) == {}", "(k", "an entry of a map is expected, as in {key: value}, not int"),
    ("{1: 2}.transformMapEntry(k, v, v) == {}", "(k", "an entry of a map is expected, as in {key: value}, not int"),
    ("optional.of(1).optFlatMap(x, x).hasValue()", "(x", "'? :' gives int or optional(dyn)"),
    # Messages.
    ("Foo{} == 1", "{", "there is no 'Foo'"),
    ("bool{} == 1", "{", "nothing can be made of the type 'bool' with braces"),
    ("google.protobuf.Int64Value{value: 'a'} == 1", "'a'", "the field 'value' is int, not string"),
    ("google.protobuf.Empty{x: 1} == dyn(1)", "{x", "google.protobuf.Empty has no field 'x'"),
]


@pytest.mark.parametrize(("text", "place", "message"), REFUSED)
def test_what_is_refused_is_explained(text: str, place: str, message: str) -> None:
    refused = refusal(text)
    assert message in refused.message
    assert text[refused.offset :].startswith(place)


@pytest.mark.parametrize("template", ["{}", "device.{}", "1.{}()", "{}()", "'a' {}", "math.{}(1)", "{} {{}}", "1 {}"])
def test_a_message_is_short_however_long_the_name(template: str) -> None:
    assert len(refusal(template.format("a" * 9000)).message) < 200
