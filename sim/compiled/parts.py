# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, import-untyped, arg-type"
"""How functions are compiled that only compiled code calls: without machine code of their own.

Numba optimises every function together with all that it calls, makes machine code of it and a
way in for Python, and so on up to the engine, of which all of them are parts. A part is left as
Numba lowers it, and the work is done once, for the engine.
"""

from __future__ import annotations

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.extending import overload


class _NoWayIn:
    """Stands for the generator of machine code where Numba notes the way in from Python."""

    @staticmethod
    def set_env(name, env):
        del name, env


class _PartLibrary(JITCodeLibrary):
    """One function as lowered, to be linked into what calls it."""

    @property
    def codegen(self):
        return _NoWayIn

    def _optimize_functions(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self):
        pass

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name):
        del name
        return 0  # "no symbol of that name"


class _PartCompiler(Compiler):
    def __init__(self, typingctx, targetctx, library, *others):
        super().__init__(typingctx, targetctx, library, *others)
        self.state.library = library or _PartLibrary(targetctx.codegen(), "part")


AS_PART = {"pipeline_class": _PartCompiler, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options by which Numba compiles a function that only compiled code calls."""


def body_of(function):
    """Return the decorator of what makes the body that compiled code has for *function*."""
    return overload(function, jit_options=AS_PART)
