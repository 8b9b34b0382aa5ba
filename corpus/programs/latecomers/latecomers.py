#!/usr/bin/env python3
"""Servers and clients of situations in `latecomers.py`, with packages that come with no Python."""

import sys


def pulls(port):
    """NNG takes what is pushed."""
    import pynng

    taken = pynng.Pull0(listen=f"tcp://0.0.0.0:{port}")
    while True:
        taken.recv()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
