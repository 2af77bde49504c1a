__version__ = version = "0.32.9"
