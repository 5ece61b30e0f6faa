"""Admission policies that keep GPUs to the tenants of their policies.

They are installed once, with manifests/base, and know of nobody. Who may do what, and by which device class or extended
resource a policy's devices are asked for, they look up in variables whose expressions are literals, and these the
operator writes anew. Parameters would be the usual way, but after a restart of the API server it refuses everything
that a guard with parameters looks at, for as long as half a minute.
"""
