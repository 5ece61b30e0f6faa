"""gpusharing ui-server: the page of `ui` in a cluster."""
