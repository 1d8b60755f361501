"""The command line. Only the tree is imported at start; each command imports what it needs."""
