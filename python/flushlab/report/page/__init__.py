"""Page: a stored campaign as one HTML file; a module per section, `page` puts them together."""
