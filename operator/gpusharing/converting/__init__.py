"""Old manifests to those of today: DRA's former versions, and NVIDIA's ways to share GPUs, to SharingPolicies.

Pure: texts in, texts and remarks out.
"""
