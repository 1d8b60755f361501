"""Certificates: issue, judge at a time, read and write a directory."""
