"""`gpusharing ui`: a cluster, or a file, as the source of the page."""
