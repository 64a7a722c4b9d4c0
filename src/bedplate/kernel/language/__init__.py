"""The functions of the kernel language, by subject; bedplate.kernel re-exports them."""
