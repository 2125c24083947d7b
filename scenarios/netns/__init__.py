"""The emulated link beside a real network: the kernel's namespaces and TCP, packets late or lost."""
