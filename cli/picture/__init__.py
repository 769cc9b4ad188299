"""Pictures of fragments: a layout of boxes and words, and writers that turn it into SVG, PNG and PDF."""
