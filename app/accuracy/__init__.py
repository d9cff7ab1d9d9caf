"""Errors of the predictions on the measurements that ship."""
