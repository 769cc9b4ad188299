"""Sources that are measured: PTX generation, probes, the device, and a simulated warp."""
