"""An algorithm that does nothing, to measure and test everything around algorithms."""
