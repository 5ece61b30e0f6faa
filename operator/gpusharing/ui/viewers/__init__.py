"""The page for many people: each signs in with a token of its own, and sees what the API server shows to this token."""
