"""What the kubelet says, as values."""
