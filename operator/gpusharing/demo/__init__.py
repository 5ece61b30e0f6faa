"""The demo: our operator and agents at work in a cluster of one process, on simulated GPUs."""
