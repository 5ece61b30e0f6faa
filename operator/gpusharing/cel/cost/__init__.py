"""What an expression costs, in Kubernetes' units: the estimate that admission uses, and what an evaluation uses up."""
