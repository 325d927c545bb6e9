"""Other kernels: kqueue, get_next_event, a server inside the kernel."""
