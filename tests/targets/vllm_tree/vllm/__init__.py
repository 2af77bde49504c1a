"""A package with the names that the adapters use of vLLM; what it does is as simple as can be."""

from vllm._version import __version__

__all__ = ["__version__"]
