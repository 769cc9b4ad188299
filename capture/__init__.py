"""Sources that are measured: PTX generation, probes, the device, and simulated threads."""
