"""What speaks to the driver is tested as the agent is."""

from agent.conftest import no_other_node

__all__ = ["no_other_node"]
