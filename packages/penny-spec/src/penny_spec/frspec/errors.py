"""The two kinds of refusal; the command line turns them into exit codes."""


class InputError(ValueError):
    """An input that cannot be read or was asked for wrongly: exit code 2."""


class MapError(ValueError):
    """A token map that must not be served, or that must not be written: exit code 4."""


class CoverageError(MapError):
    """A map whose held-out coverage lies under the floor."""
