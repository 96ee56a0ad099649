"""Native code for tensors and nodes: calls of ops, and the loop of the engine, written as LLVM text.

Like `kernels`, it is loaded when a program turns out to need it, and everything runs without it.
"""
