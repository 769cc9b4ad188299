"""What a page consists of."""

from html.parser import HTMLParser


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the text of each."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def links(self, *tags):
        names = ("href", "src", "action")
        return [
            value
            for tag, attributes in self.found
            for name in names
            if (value := attributes.get(name)) and tag in (tags or (tag,))
        ]
