"""What is in a bundle beside its snapshot: whose logs and metrics, and what is said of them."""
