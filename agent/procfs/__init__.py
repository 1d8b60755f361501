"""What /proc says, as values: text in, values out."""
