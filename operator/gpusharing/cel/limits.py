"""What Kubernetes allows a device selector."""

from typing import Final

COST_LIMIT: Final = 1_000_000
"""Units: of the estimate, over which the API server refuses an expression, and of what an evaluation may use up."""
