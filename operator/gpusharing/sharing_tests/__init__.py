"""Tests of policies: what is expected of them, tried on a cluster in memory. Pure: files are read by whoever calls."""
