from typing import Any

import pytest

from recipes.definitions import definitions


@pytest.fixture(scope="session")
def recipe_definitions() -> list[dict[str, Any]]:
    return definitions()
