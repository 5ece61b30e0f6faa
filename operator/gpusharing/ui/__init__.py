"""One page about who is on which GPU: what `gpusharing ui` serves, and writes as a file."""
