"""The commands of `sapwood`: one file each, with `add(parsers)` and a `run` that returns the exit status."""
