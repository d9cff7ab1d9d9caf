"""Tables about models: static counts, symbolic structure, the page of what ships."""
