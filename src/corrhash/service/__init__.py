"""The search service: a collection on the web, as an API and as a page."""
