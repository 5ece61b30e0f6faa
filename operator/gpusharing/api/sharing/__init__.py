"""Our own objects: SharingPolicy (what a platform team wants) and NodeSharing (operator and agent about one node)."""
