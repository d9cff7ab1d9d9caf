"""Runs kept on disk: folders, index, bundles and documents."""
