"""Pages that predict."""
