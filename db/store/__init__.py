"""Where layouts are kept: SQLite, PostgreSQL, files."""
