"""What the commands find out: one table of findings, by stable codes (docs/findings.md)."""
