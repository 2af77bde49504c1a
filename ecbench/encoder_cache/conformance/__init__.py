"""The conformance suite of encoder-cache connectors: named checks, what they check against, and what runs them."""
