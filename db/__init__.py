"""The database: records, schema, store, structural checks, look-ups and export. It knows no source of data."""
