"""What is allowed. Values in, values out: no files, sockets, clocks, logs or metrics in here."""
