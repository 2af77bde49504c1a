"""Types that every room shares: records, copy plans, protocols, units and errors. Imports no other room."""
