"""The pages: one file each, in the groups of the navigation."""
