"""From one instruction to the next: chains, recipes, metadata."""
