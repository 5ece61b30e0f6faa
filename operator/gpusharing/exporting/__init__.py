"""What policies mean to systems that queue jobs."""
