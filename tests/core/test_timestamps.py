"""Moments as Kubernetes writes them."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.core.timestamps import seconds


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2999, 12, 31)))  # noqa: DTZ001
def test_moments(moment: datetime) -> None:
    whole = moment.replace(microsecond=0, tzinfo=UTC)
    assert seconds(whole.strftime("%Y-%m-%dT%H:%M:%SZ")) == int(whole.timestamp())
    assert seconds(whole.strftime("%Y-%m-%dT%H:%M:%S.123456Z")) == int(whole.timestamp())


@pytest.mark.parametrize("text", ["", "2026-11-18", "2026-11-18T12:00:00+01:00", "now"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match="is not a moment"):
        seconds(text)
