"""Part of a package with the names of vLLM."""
