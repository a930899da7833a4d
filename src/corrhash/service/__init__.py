"""The search service: a collection published over HTTP, as a JSON API and a web page."""
