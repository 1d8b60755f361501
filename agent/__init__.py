"""The node agent: compares what processes touch with what the kubelet allocated. Its readers are here; the loop is not yet."""
