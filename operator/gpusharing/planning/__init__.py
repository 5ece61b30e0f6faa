"""What a change of policies would do to a cluster. Pure: from a World and the objects that are to be applied."""
