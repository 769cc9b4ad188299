"""The commands, by what they are for. Each parses, calls and prints; it imports what it needs when it runs."""
