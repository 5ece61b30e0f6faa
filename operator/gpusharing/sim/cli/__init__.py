"""The command `gpusharing sim`: simulated GPU nodes from a shell. docs/simulation.md shows all of it."""

from gpusharing.sim.cli.commands import register

__all__ = ["register"]
