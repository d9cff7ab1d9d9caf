"""The user interfaces of Ridgeline: dashboard, command line, Python, HTTP and MCP."""


def version() -> str:
    """The release that is installed; "0+unknown" of a checkout on the path."""
    from importlib import metadata

    try:
        return metadata.version("ridgeline")
    except metadata.PackageNotFoundError:
        return "0+unknown"
