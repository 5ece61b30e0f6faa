"""What a node that is not there yet would publish."""
