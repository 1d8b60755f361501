"""The node agent: compares what processes touch with what the kubelet allocated. So far its readers, no loop."""
