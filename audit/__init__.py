"""What is kept about decisions: the record, and where it goes. Imports nothing of the other folders."""
