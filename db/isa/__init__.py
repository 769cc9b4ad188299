"""Instructions, their forms, types and spellings."""
