"""How a traced kernel reaches a device: legal instructions first, then the device's own code."""
