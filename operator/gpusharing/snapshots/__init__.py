"""A cluster as the commands see it: read from its API server, or from a file."""
