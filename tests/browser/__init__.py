"""Tests in a browser; a package, so that the browser is closed after the last of them."""
