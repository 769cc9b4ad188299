"""Two layouts, two sources, all sources."""
