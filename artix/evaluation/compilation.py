def cpu_kernel(program, levels):
    return None


def kernels_are_on():
    return True
