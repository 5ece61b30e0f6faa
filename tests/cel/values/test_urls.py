"""URLs give the answers of Kubernetes 1.37, built with Go 1.26."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.values.urls import is_url, parse, problem

# Text, scheme, host, hostname, port, escaped path.
PARTS = [
    ("https://u:p@example.com:80/path?query=val#fragment", ("https", "example.com:80", "example.com", "80", "/path")),
    ("/absolute-path", ("", "", "", "", "/absolute-path")),
    ("HTTPS://EXAMPLE.com/", ("https", "EXAMPLE.com", "EXAMPLE.com", "", "/")),
    ("https://example.com", ("https", "example.com", "example.com", "", "")),
    ("https://[::1]:80/", ("https", "[::1]:80", "::1", "80", "/")),
    ("https://[::1]/", ("https", "[::1]", "::1", "", "/")),
    ("https://[fe80::1%25eth0]/", ("https", "[fe80::1%eth0]", "fe80::1%eth0", "", "/")),
    ("mailto:joe@example.com", ("mailto", "", "", "", "")),
    ("http://example.com/a b/c", ("http", "example.com", "example.com", "", "/a%20b/c")),
    ("http://example.com/a%20b", ("http", "example.com", "example.com", "", "/a%20b")),
    ("http://example.com/%41%2F[x]", ("http", "example.com", "example.com", "", "/%41%2F[x]")),
    ("http://example.com/é", ("http", "example.com", "example.com", "", "/%C3%A9")),
    ("http://ex%C3%A9mple.com/", ("http", "exémple.com", "exémple.com", "", "/")),
    ("http://example.com:/", ("http", "example.com:", "example.com", "", "/")),
    ("ftp://a:b:80/", ("ftp", "a:b:80", "a:b", "80", "/")),
    ("http://u@/", ("http", "", "", "", "/")),
    ("file:///etc/passwd", ("file", "", "", "", "/etc/passwd")),
    ("x:/", ("x", "", "", "", "/")),
    ("*", ("", "", "", "", "*")),
    ("/a;b?c", ("", "", "", "", "/a;b")),
    ("//host/path", ("", "host", "host", "", "/path")),
    ("///path", ("", "", "", "", "///path")),
    ("http://a?b=c", ("http", "a", "a", "", "")),
    ("http://%ff/", ("http", "\udcff", "\udcff", "", "/")),
]

PROBLEMS = [
    ("", 'parse "": empty url'),
    ("../relative-path", 'parse "../relative-path": invalid URI for request'),
    ("example.com", 'parse "example.com": invalid URI for request'),
    ("1a:b", 'parse "1a:b": invalid URI for request'),
    ("a b:c", 'parse "a b:c": invalid URI for request'),
    (":", 'parse ":": missing protocol scheme'),
    ("https://a:b:c/", 'parse "https://a:b:c/": invalid port ":b:c" after host'),
    ("https://a:1:2/", 'parse "https://a:1:2/": invalid port ":1:2" after host'),
    ("http://a:x/", 'parse "http://a:x/": invalid port ":x" after host'),
    ("http://[::1", "parse \"http://[::1\": missing ']' in host"),
    ("http://[::1]a/", 'parse "http://[::1]a/": invalid port "a" after host'),
    ("http://[1.2.3.4]/", 'parse "http://[1.2.3.4]/": invalid IP-literal'),
    ("http://a[::1]/", 'parse "http://a[::1]/": invalid IP-literal'),
    ("http://[x]/", 'parse "http://[x]/": invalid host: ParseAddr("x"): unable to parse IP'),
    ("http://[fe80::1%eth0]/", 'parse "http://[fe80::1%eth0]/": invalid URL escape "%et"'),
    ("http://[::1%25%2f]/", 'parse "http://[::1%25%2f]/": invalid URL escape "%2f"'),
    ("http://a b/", 'parse "http://a b/": invalid character " " in host name'),
    ("http://%41/", 'parse "http://%41/": invalid URL escape "%41"'),
    ("http://%3B%", 'parse "http://%3B%": invalid URL escape "%3B"'),
    ("http://a%/", 'parse "http://a%/": invalid URL escape "%"'),
    ("http://u%zz@h/", 'parse "http://u%zz@h/": invalid URL escape "%zz"'),
    ("http://u[@h/", 'parse "http://u[@h/": net/url: invalid userinfo'),
    ("/a%2", 'parse "/a%2": invalid URL escape "%2"'),
    ("/\x7f", r'parse "/\x7f": net/url: invalid control character in URL'),
    ("/a\n", r'parse "/a\n": net/url: invalid control character in URL'),
]

QUERIES: list[tuple[str, dict[str, list[str]]]] = [
    ("/?k1=a&k2=b&k2=c", {"k1": ["a"], "k2": ["b", "c"]}),
    ("/?key with spaces=value with spaces", {"key with spaces": ["value with spaces"]}),
    ("/path?", {}),
    ("/", {}),
    ("/?a=1;b=2&c=3", {"c": ["3"]}),
    ("/?a=%zz&b=1", {"b": ["1"]}),
    ("/?a+b=c+d%2B", {"a b": ["c d+"]}),
    ("/?=x", {"": ["x"]}),
    ("/?x", {"x": [""]}),
    ("/?&&a", {"a": [""]}),
    ("/?%C3%A9=%c3%a9", {"é": ["é"]}),
    ("/?a=%ff", {"a": ["\udcff"]}),
    ("/?a=1=2", {"a": ["1=2"]}),
    ("/?" + "&" * 10_000 + "a", {}),
]

EQUAL = [
    ("http://a/", "HTTP://a/", True),
    ("http://a/b c", "http://a/b%20c", True),
    ("http://a/#", "http://a/", True),
    ("http://%75@a/", "http://u@a/", True),
    ("http://é/", "http://%C3%A9/", True),
    ("http://a", "http://a/", False),
    ("http://a/%41", "http://a/A", False),
    ("http://a/%2f", "http://a/%2F", False),
    ("http://a/?", "http://a/", False),
    ("http://a:80/", "http://a/", False),
    ("http://u:@a/", "http://u@a/", False),
    ("x:/y", "x:///y", False),
    ("/a'b", "/a%27b", False),
]


@pytest.mark.parametrize(("text", "parts"), PARTS)
def test_the_parts_of_a_url(text: str, parts: tuple[str, ...]) -> None:
    assert is_url(text)
    url = parse(text)
    assert (url.scheme, url.host, url.hostname, url.port, url.escaped_path) == parts


@pytest.mark.parametrize(("text", "message"), PROBLEMS)
def test_what_is_no_url_is_refused_in_go_words(text: str, message: str) -> None:
    assert not is_url(text)
    assert problem(text) == message
    with pytest.raises(EvaluationError) as caught:
        parse(text)
    assert caught.value.message == f"URL parse error during conversion from string: {message}"


def test_a_broken_fragment_is_found_only_when_the_url_is_made() -> None:
    assert is_url("/?#%zz")
    with pytest.raises(EvaluationError, match="invalid URL escape"):
        parse("/?#%zz")


@pytest.mark.parametrize(("text", "query"), QUERIES)
def test_the_query_of_a_url(text: str, query: dict[str, list[str]]) -> None:
    assert parse(text).query() == query


@pytest.mark.parametrize(("left", "right", "equal"), EQUAL)
def test_urls_are_equal_if_they_are_written_the_same(left: str, right: str, equal: bool) -> None:
    assert parse(left).equals(parse(right)) == equal
    assert parse(right).equals(parse(left)) == equal


@given(st.text(max_size=30) | st.from_regex(r"\A[a-z]{0,5}:?//[^/]{0,12}(/[^?#]{0,8})?(\?.{0,8})?(#.{0,4})?\Z"))
def test_any_text_is_a_url_or_has_a_problem(text: str) -> None:
    try:
        url = parse(text)
    except EvaluationError:
        return
    assert is_url(text)
    assert url.equals(parse(text))
    assert url.escaped_path.isascii()
    assert url.host.startswith(url.hostname) or url.hostname in url.host
