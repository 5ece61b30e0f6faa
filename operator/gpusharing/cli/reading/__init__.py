"""How commands read a cluster: as kubectl does, with nothing but the standard library, so that they start at once."""
