# Numba calls these by its own conventions; annotations would say less.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, import-untyped"
# mypy: disable-error-code="call-arg, attr-defined, return-value, override"
"""Records by reference: how compiled code sees the world that Python built.

    World ──► [ now_ns │ n_rows │ cpus ●──► [●, ●] │ at_ns ●──► array │ ... ]   int64 each
                                             └──► [ irq_free_ns │ ... ]

A record is an address. Its fields are read and written in place, a column is the address and the
length of a NumPy array of any integer type, and a named tuple lies inside its record. Nothing is
counted, copied or owned, which is what a structref (an atomic count at every use of an array),
a NumPy record (silently copied in generators) and a jitclass each do wrong here. Whoever built
the arrays keeps them alive while compiled code runs.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.core.datamodel import models
from numba.core.errors import TypingError
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer_getattr,
    infer_global,
    signature,
)
from numba.extending import (
    intrinsic,
    lower_builtin,
    lower_getattr_generic,
    lower_setattr_generic,
    register_model,
)

WORD = 8
_I64 = ir.IntType(64)
_ADDRESS = ir.IntType(8).as_pointer()


class ColumnType(types.Type):
    """An array of integers of *dtype*: address and length.

    Columns of different fields are different arrays, and the compiler is told so.
    """

    words = 2

    def __init__(self, dtype: types.Integer, field: str) -> None:
        self.dtype = dtype
        self.field = field
        super().__init__(name=f"Column({dtype}, {field})")


class RecordType(types.Type):
    """A record; *members* are (name, type), each with its place in words."""

    def __init__(self, label: str, members: tuple[tuple[str, types.Type], ...]) -> None:
        self.label = label
        self.members = members
        self.at: dict[str, int] = {}
        self.words = 0
        for name, kind in members:
            self.at[name] = self.words
            self.words += words_of(kind)
        self.fields = dict(members)
        # The name is part of every compiled function's: short, but one for each layout.
        layout = " ".join(f"{name}:{kind.name}" for name, kind in members)
        super().__init__(name=f"{label}_{hashlib.sha256(layout.encode()).hexdigest()[:12]}")


class ReferenceType(types.Type):
    """A field that holds the address of a record: reading it gives the record."""

    words = 1

    def __init__(self, record: RecordType) -> None:
        self.record = record
        super().__init__(name=f"Reference({record.name})")


class RecordsType(types.Type):
    """A list of records of one type: an array of their addresses."""

    words = 2

    def __init__(self, record: RecordType) -> None:
        self.record = record
        super().__init__(name=f"Records({record.name})")


def words_of(kind: types.Type) -> int:
    """Return how many words a field of *kind* takes."""
    return getattr(kind, "words", 1)


@register_model(RecordType)
class _RecordModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, _ADDRESS)


@register_model(ColumnType)
class _ColumnModel(models.StructModel):
    def __init__(self, dmm, fe_type):
        members = [("data", types.CPointer(fe_type.dtype)), ("size", types.int64)]
        super().__init__(dmm, fe_type, members)


@register_model(RecordsType)
class _RecordsModel(models.StructModel):
    def __init__(self, dmm, fe_type):
        members = [("data", types.CPointer(types.int64)), ("size", types.int64)]
        super().__init__(dmm, fe_type, members)


@infer_getattr
class _RecordFields(AttributeTemplate):
    key = RecordType

    def generic_resolve(self, record, name):
        kind = record.fields.get(name)
        return kind.record if isinstance(kind, ReferenceType) else kind


def _place(builder, record, word, kind):
    """Return the pointer to the field *word* words into *record*."""
    place = builder.gep(record, [ir.Constant(_I64, word * WORD)], inbounds=True)
    return builder.bitcast(place, kind.as_pointer())


def _of(builder, instruction, field):
    """Tell the compiler that *instruction* touches *field* and nothing else; return it.

    Without this it must believe that any write to a column may change any field of any record,
    and read every address and every number again (LLVM Language Reference, "tbaa").
    """
    module = builder.module
    zero = ir.Constant(_I64, 0)
    kind = module.add_metadata([field, module.add_metadata(["dispatchsim"]), zero])
    instruction.set_metadata("tbaa", module.add_metadata([kind, kind, zero]))
    return instruction


def _load(builder, place, field):
    return _of(builder, builder.load(place), field)


@lower_getattr_generic(RecordType)
def _get_field(context, builder, record, value, name):
    kind, word = record.fields[name], record.at[name]
    field = f"{record.label}.{name}"
    if isinstance(kind, RecordType):
        return builder.gep(value, [ir.Constant(_I64, word * WORD)], inbounds=True)
    if isinstance(kind, ReferenceType):
        return _load(builder, _place(builder, value, word, _ADDRESS), field)
    if isinstance(kind, ColumnType | RecordsType):
        view = cgutils.create_struct_proxy(kind)(context, builder)
        view.data = _load(builder, _place(builder, value, word, view.data.type), f"{field} address")
        view.size = _load(builder, _place(builder, value, word + 1, _I64), f"{field} length")
        return view._getvalue()
    number = _load(builder, _place(builder, value, word, _I64), field)
    if kind == types.boolean:
        return builder.icmp_signed("!=", number, ir.Constant(_I64, 0))
    return number


@lower_setattr_generic(RecordType)
def _set_field(context, builder, sig, args, name):
    record, given = sig.args
    if record.fields[name] not in (types.int64, types.boolean):
        raise TypeError(f"{record.label}.{name} is no number: compiled code cannot set it")
    value = context.cast(builder, args[1], given, record.fields[name])
    if record.fields[name] == types.boolean:
        value = builder.zext(value, _I64)
    store = builder.store(value, _place(builder, args[0], record.at[name], _I64))
    _of(builder, store, f"{record.label}.{name}")


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, args, kws):
        view, index = args
        if not isinstance(index, types.Integer) or kws:
            return None
        if isinstance(view, ColumnType):
            return signature(types.int64, view, types.int64)
        if isinstance(view, RecordsType):
            return signature(view.record, view, types.int64)
        return None


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args, kws):
        view, index, value = args
        if isinstance(view, ColumnType) and isinstance(index, types.Integer) and not kws:
            if not isinstance(value, types.Integer | types.Boolean):
                raise TypingError(f"{view.field} holds whole numbers, not {value}")
            return signature(types.none, view, types.int64, types.int64)
        return None


@infer_global(len)
class _Length(AbstractTemplate):
    def generic(self, args, kws):
        if isinstance(args[0], ColumnType | RecordsType) and not kws:
            return signature(types.int64, args[0])
        return None


def _entry(context, builder, view, index):
    """Return the pointer to an entry; with NUMBA_BOUNDSCHECK=1 there must be one."""
    if config.BOUNDSCHECK:
        missing = builder.icmp_unsigned(">=", index, view.size)
        with builder.if_then(missing, likely=False):
            context.call_conv.return_user_exc(builder, IndexError, ("no such entry",))
    return builder.gep(view.data, [index])


@lower_builtin(operator.getitem, ColumnType, types.int64)
def _get_entry(context, builder, sig, args):
    kind = sig.args[0]
    view = cgutils.create_struct_proxy(kind)(context, builder, args[0])
    value = _load(builder, _entry(context, builder, view, args[1]), f"entry of {kind.field}")
    return context.cast(builder, value, kind.dtype, types.int64)


@lower_builtin(operator.getitem, RecordsType, types.int64)
def _get_record(context, builder, sig, args):
    kind = sig.args[0]
    view = cgutils.create_struct_proxy(kind)(context, builder, args[0])
    address = _load(builder, _entry(context, builder, view, args[1]), f"entry of {kind.name}")
    return builder.inttoptr(address, _ADDRESS)


@lower_builtin(operator.setitem, ColumnType, types.int64, types.int64)
def _set_entry(context, builder, sig, args):
    kind = sig.args[0]
    view = cgutils.create_struct_proxy(kind)(context, builder, args[0])
    value = context.cast(builder, args[2], types.int64, kind.dtype)
    store = builder.store(value, _entry(context, builder, view, args[1]))
    _of(builder, store, f"entry of {kind.field}")


@lower_builtin(len, ColumnType)
@lower_builtin(len, RecordsType)
def _get_length(context, builder, sig, args):
    return cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0]).size


def record_at(record: RecordType) -> Callable[[int], Any]:
    """Return the function that gives compiled code the record of that type at an address."""

    @intrinsic
    def at(_, address):
        def generate(context, builder, sig, args):
            return builder.inttoptr(args[0], _ADDRESS)

        return record(types.int64), generate

    return at
