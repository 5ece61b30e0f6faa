"""What Kubernetes refuses although the types fit."""

import pytest

from cel.checked_texts import ATTRIBUTE, refusal

# Expression, what the caret stands under and what follows, the message or a part of it.
REFUSED = [
    # Literals.
    ("[1, 'a'] == dyn(1)", "'a'", "an element of a list is string after one that is int"),
    ("[1, dyn(1)] == dyn(1)", "(1)]", "an element of a list is dyn after one that is int"),
    ("{1: 1, 'a': 1} == dyn(1)", "'a'", "a key of a map is string after one that is int"),
    ("{1: 1, 2: 'a'} == dyn(1)", "'a'", "a value of a map is string after one that is int"),
    ("[?1] == [1]", "1] ==", "must be an optional value, not int"),
    ("[?dyn(1)] == [1]", "(1)] ==", "must be known to be an optional value"),
    ("{b'a': 1} == dyn(1)", "b'a'", "bytes cannot be an index or a key"),
    # Formats.
    ("'%d'.format(['a']) == ''", "'a']", "'%d' does not format string"),
    ("'%s'.format([quantity('1')]) == ''", "('1')", "'%s' does not format quantity"),
    ("'%s'.format([[{'a': device}]]) == ''", "device", "'%s' does not format device"),
    ("'%d%d'.format([1]) == ''", "([1]", "the format takes more values than the 1 that are given"),
    ("'%d'.format([1, 2]) == ''", "([1", "the format takes 1 values, and 2 are given"),
    ("'%q'.format([1]) == ''", "([1", "'%q' is no format"),
    ("'a%'.format([1]) == ''", "([1", "at the end is no format"),
    ("'%.f'.format([1.0]) == ''", "([1", "no precision"),
    ("'%.99999999999999999999f'.format([1.0]) == ''", "([1", "no precision"),
    # What is noticed last.
    ("1", "1", "a selector must be true or false, and this is int"),
    ("device.driver", ".driver", "this is string"),
    ("type(1) == duration", "duration", "Kubernetes knows no type 'duration' when it evaluates"),
    ("[int].exists(t, t == int)", "t ==", "Kubernetes knows no type 't' when it evaluates"),
    ("cel.bind(t, type(1), true)", "(t", "Kubernetes knows no type 't' when it evaluates"),
    (f"{ATTRIBUTE}[null] == 1", "[null]", "null cannot be an index or a key"),
    (f"{ATTRIBUTE}[?dyn([1])] == optional.none()", "[?dyn", "list(int) cannot be an index or a key"),
]


@pytest.mark.parametrize(("text", "place", "message"), REFUSED)
def test_what_is_refused_is_explained(text: str, place: str, message: str) -> None:
    refused = refusal(text)
    assert message in refused.message
    assert text[refused.offset :].startswith(place)
