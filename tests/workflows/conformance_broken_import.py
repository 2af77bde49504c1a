"""A target's module that cannot be imported."""

raise RuntimeError("libtarget.so.12: cannot open\nshared object file")
