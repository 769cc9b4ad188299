"""Lanemap in a browser: ``create_app`` in ``app`` makes the application that ``lanemap serve`` runs.

app       the application: what every request and every answer goes through
api       the answers of ``Database`` as JSON, CSV, Parquet and Arrow
pages     the same for people
formats   which of these formats a request asks for
problem   refusals, as problem+json
work      what takes long, or reads what somebody sent, in processes of their own
database  the open database, for every route
"""
