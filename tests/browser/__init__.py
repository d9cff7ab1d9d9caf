"""Tests in a browser; a package, so that its browser goes with the last of them."""
