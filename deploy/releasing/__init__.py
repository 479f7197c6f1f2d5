"""The checks of a release, run by `deploy/release`; no part of the package."""
