"""Who is on which GPU: what `top` and `ui` show. Pure."""
