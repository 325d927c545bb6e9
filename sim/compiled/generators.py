# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, import-untyped"
"""Compiled generators that outlive the call that made them.

Numba keeps a generator in the frame of the function that created it. Here its state is copied to
memory of ours, and resumed there, so that a server can have as many workers as it likes.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def keep(_, generator, address, room):
    """Copy the state of *generator* to *address* if it fits; return how many bytes it takes."""

    def generate(context, builder, sig, args):
        state = context.data_model_manager[sig.args[0]].get_data_type()
        size = ir.Constant(ir.IntType(64), context.get_abi_sizeof(state))
        with builder.if_then(builder.icmp_signed("<=", size, args[2])):
            place = builder.inttoptr(args[1], state.as_pointer())
            builder.store(builder.load(args[0]), place)
        return size

    return types.int64(generator, types.int64, types.int64), generate


@intrinsic
def kept(_, generator, address):
    """Return the generator whose state was kept at *address*; *generator* says of which type."""

    def generate(context, builder, sig, args):
        state = context.data_model_manager[sig.args[0]].get_value_type()
        return builder.inttoptr(args[1], state)

    return generator(generator, types.int64), generate


@intrinsic
def call_back(_, address):
    """Call the C function without arguments at *address*; return its int64."""

    def generate(context, builder, sig, args):
        function = ir.FunctionType(ir.IntType(64), [])
        return builder.call(builder.inttoptr(args[0], function.as_pointer()), [])

    return types.int64(types.int64), generate
