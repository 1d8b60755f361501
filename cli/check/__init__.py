"""The pure parts of `gpufence check`, and the command itself (command.py)."""
