"""Is a cluster ready for gpu-sharing, and is an installation well? Facts in, findings out (docs/doctor.md)."""
