"""The connectors under test, behind one protocol."""
