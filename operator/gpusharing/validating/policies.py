"""The SharingPolicies among the given objects."""

from functools import cache
from typing import Any

import pydantic

from gpusharing.api.sharing.policy import SharingPolicy


def read_policy(value: Any) -> SharingPolicy | None:
    """None of what the operator could not read, either."""
    metadata = {"uid": "", "resourceVersion": "0", "generation": 1, **value["metadata"]}
    try:
        return _adapter().validate_python({**value, "metadata": metadata})
    except pydantic.ValidationError:
        return None


@cache
def _adapter() -> pydantic.TypeAdapter[SharingPolicy]:
    return pydantic.TypeAdapter(SharingPolicy)
