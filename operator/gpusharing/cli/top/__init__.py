"""`gpusharing top`: who is on which GPU."""
