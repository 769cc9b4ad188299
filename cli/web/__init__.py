"""Lanemap in a browser: ``create_app`` in ``app`` makes the application that ``lanemap serve`` runs.

app       the application: the routes, and what every request and every answer goes through
api       the answers of ``Database`` as JSON, CSV, Parquet and Arrow
pages     the same for people
database  the open database, for every route
formats   which format a request asks for
problem   refusals, as problem+json
cached    answers that are kept, and their ETags
held      operands that were looked at last, in memory
limits    how long a request may take, and how much it may send
work      processes that work for requests, and files that are sent
tasks     what is done in these processes
"""
