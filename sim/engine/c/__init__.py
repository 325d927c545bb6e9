"""The fast engine: mechanisms and programs translated to C, compiled, and run without SimPy.

    source.py    a Python function: its syntax tree, and what its names mean
    infer.py     the types of its locals, constants folded, calls resolved  ─► tree.py
    assigned.py  whether every local surely has a value where it is read
    emit.py      tree.py ─► C
    translate.py a program and the layout of its world ─► one C file
    layout.py    the records of a world as words that C and Python share
    run.py       one run: load the library, call it, return to Python now and then

The engine's own part (calendar, free descriptors, stacks, the loop) is C by hand, in runtime/.
"""
