"""What stops a benchmark as a whole."""


class BenchError(Exception):
    """Nothing could be measured. The message is a sentence for the user.

    What goes wrong in a single stream is no exception but a `Failure` in its record.
    """
