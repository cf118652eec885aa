"""Tests in a real browser: a package, so that its browser is closed before other tests begin."""
