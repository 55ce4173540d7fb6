import functools


def batch_last(function, *static, in_blocks=True):
    return functools.partial(function, *static)
