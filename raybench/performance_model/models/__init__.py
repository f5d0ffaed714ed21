"""Models by their shape, and where a shape comes from: a name, a configuration file, a count."""
