"""The installed vLLM as a target. Nothing here imports vLLM before it is asked for.

Imports are absolute: ``import vllm`` in this package means the installed vLLM.
"""
