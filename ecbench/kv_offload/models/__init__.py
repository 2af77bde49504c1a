"""Models as data: DeepSeek-V4 by name or by its Hugging Face config, any other hybrid as a TOML file of groups."""
