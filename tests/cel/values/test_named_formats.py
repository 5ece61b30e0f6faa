"""Named formats give the reasons of Kubernetes 1.37, word by word: expressions may compare them."""

import uuid
from base64 import b64encode
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.cel.values.named_formats import NAMED_FORMATS

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', "
    "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', "
    r"regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', "
    "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
    "regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
TOO_MANY_PARTS = f"a valid label key {KEY} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"

VALID = {
    "dns1123Label": ["my-name", "a", "1", "a" * 63],
    "dns1123Subdomain": ["a", "a.b-c.1"],
    "dns1035Label": ["a-1"],
    "dns1123LabelPrefix": ["a-", "a--", "a.-"],
    "dns1123SubdomainPrefix": ["a.b-", "a.-", ".-"],
    "dns1035LabelPrefix": ["a-", "1-"],
    "qualifiedName": ["MyName", "a/b", "a.b/c_D.e"],
    "labelValue": ["", "a_B.c-1"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"],
    "byte": ["aGVsbG8=", "YQ=="],
    "date": ["2021-01-01", "2024-02-29", "0000-02-29"],
    "datetime": [
        "2021-01-01T00:00:00Z", "2021-01-01t00:00:00z", "2021-01-01T23:59:59.123+99:99", "2021-01-01T00:00:00ZTx",
    ],
    "uri": ["http://a/", "/a"],
}  # fmt: skip

INVALID = [
    *(("dns1123Label", text, [LABEL]) for text in ("My_name", "-a", "a-", "", "é", "a\n", ".")),
    ("dns1123Label", "a" * 64, ["must be no more than 63 characters"]),
    ("dns1123Label", "a.b", ["must not contain dots"]),
    *(("dns1123Subdomain", text, [SUBDOMAIN]) for text in ("a..b", "A.b", "")),
    ("dns1123Subdomain", "a" * 254, ["must be no more than 253 characters"]),
    *(("dns1035Label", text, [LABEL_1035]) for text in ("1a", "a.b")),
    ("dns1035Label", "a" * 64, ["must be no more than 63 characters"]),
    *(("dns1123LabelPrefix", text, [LABEL]) for text in ("-", "é-")),
    ("qualifiedName", "", ["name part must be non-empty", f"name part {KEY}"]),
    ("qualifiedName", "a/", ["name part must be non-empty", f"name part {KEY}"]),
    ("qualifiedName", "/b", ["prefix part must be non-empty"]),
    ("qualifiedName", "A/b", [f"prefix part {SUBDOMAIN}"]),
    ("qualifiedName", "a/b/c", [TOO_MANY_PARTS]),
    ("qualifiedName", "é", [f"name part {KEY}"]),
    ("qualifiedName", "a" * 64, ["name part must be no more than 63 bytes"]),
    ("qualifiedName", "a" * 254 + "/b", ["prefix part must be no more than 253 bytes"]),
    ("labelValue", "-a", [LABEL_VALUE]),
    ("labelValue", "é" * 32, ["must be no more than 63 bytes", LABEL_VALUE]),
    *(("uuid", text, ["does not match the UUID format"]) for text in ("123e4567-e89b-12d3-a456-42661417400", "x")),
    *(("byte", text, ["invalid base64"]) for text in ("", "aGVsbG8", "Y Q==", "YQ==\n")),
    *(("date", text, ["invalid date"]) for text in ("2023-02-29", "2021-1-01", "2021-01-01 ", "2021-13-01")),
    *(
        ("datetime", text, ["invalid datetime"])
        for text in ("x", "2021-01-01", "2021-01-01T00:00:00", "2021-01-01T24:00:00Z", "2021-01-01T00:00:60Z")
    ),
    ("uri", "x", ['parse "x": invalid URI for request']),
]


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in VALID.items() for text in texts])
def test_nothing_is_said_of_a_valid_text(name: str, text: str) -> None:
    assert NAMED_FORMATS[name].validate(text) == []


@pytest.mark.parametrize(("name", "text", "reasons"), INVALID)
def test_the_reasons_why_a_text_is_invalid(name: str, text: str, reasons: list[str]) -> None:
    assert NAMED_FORMATS[name].validate(text) == reasons


def test_all_formats_are_tried_here() -> None:
    assert VALID.keys() == NAMED_FORMATS.keys()


@given(st.sampled_from(sorted(NAMED_FORMATS)), st.text(max_size=40))
def test_any_text_is_valid_or_there_is_a_reason(name: str, text: str) -> None:
    assert all(NAMED_FORMATS[name].validate(text))


@given(st.uuids(), st.binary(min_size=1), st.dates())
def test_what_the_library_writes_is_valid(identifier: uuid.UUID, raw: bytes, day: date) -> None:
    assert NAMED_FORMATS["uuid"].validate(str(identifier)) == []
    assert NAMED_FORMATS["byte"].validate(b64encode(raw).decode()) == []
    assert NAMED_FORMATS["date"].validate(day.isoformat()) == []
    assert NAMED_FORMATS["datetime"].validate(f"{day.isoformat()}T12:00:00Z") == []
