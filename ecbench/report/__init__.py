"""Results as people and programs read them. Reads records only: nothing measured depends on how it is shown."""
