"""Lanemap in a browser: ``create_app`` in ``app`` makes the application that ``lanemap serve`` runs.

app       the application: the routes, what every request and every answer goes through, and refusals
api       the answers of ``Database`` in every format
pages     the same for people: which pages there are
views     what each page says
render    pages from templates, layouts as tables
links     the address of each page, and the names by which it is found
site      the pages as files
guide     the pages of the guide
server    what runs the application, with limits for connections
work      the open database, what was read of it or made of it, and processes that work for requests
"""
