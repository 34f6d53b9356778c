"""The version of flushlab; pyproject.toml takes the package's from Cargo.toml, a test keeps both equal."""

__version__ = "0.1.0"
