"""Files: atomic and resumable writes, locks, folders, and checks of what is read."""
