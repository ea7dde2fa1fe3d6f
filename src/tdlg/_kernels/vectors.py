"""Short vectors of float64 that live in registers: a numba type over LLVM's own vectors, no C.

`vector(t)` makes one of a tuple, and so the number of lanes is known when a kernel is compiled. Vectors add, subtract and
multiply with each other and with numbers, lane by lane; a product and a sum that follow each other become one instruction
where the processor has it. LLVM splits vectors wider than the processor's registers, so kernels run everywhere.
"""

import operator

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

from tdlg._kernels.compiled import compiled

_DOUBLE = ir.DoubleType()
_INT = ir.IntType(32)
_CONTRACT = ("contract",)


LINE = 64  # bytes of a cache line; a vector that lies across two costs twice


@compiled
def empty_aligned(n_rows, n_columns):
    """An array of float64 that begins at a cache line."""
    flat = np.empty(n_rows * n_columns + LINE // 8)
    skip = (-flat.ctypes.data % LINE) // 8
    return flat[skip : skip + n_rows * n_columns].reshape(n_rows, n_columns)


class Vector(types.Type):
    """The type of `lanes` float64 in a register."""

    def __init__(self, lanes):
        self.lanes = lanes
        super().__init__(name=f"Vector({lanes})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, _llvm(kind))


def _llvm(kind, element=_DOUBLE):
    return ir.VectorType(element, kind.lanes)


def _splat(builder, kind, value):
    undefined = ir.Constant(_llvm(kind), ir.Undefined)
    first = builder.insert_element(undefined, value, _INT(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_llvm(kind, _INT), [0] * kind.lanes))


@intrinsic
def vector(context, values):
    """The vector of a tuple of floats."""
    kind = Vector(len(values))

    def generate(_, builder, signature, arguments):
        result = ir.Constant(_llvm(kind), ir.Undefined)
        for lane in range(kind.lanes):
            result = builder.insert_element(result, builder.extract_value(arguments[0], lane), _INT(lane))
        return result

    return kind(values), generate


@intrinsic
def pointer(context, array):
    """Where a contiguous array begins.

    Helpers take pointers, not arrays: numba counts the references of an array that it hands on, which in a loop costs more
    than the work.
    """

    def generate(target, builder, signature, arguments):
        return target.make_array(signature.args[0])(target, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), generate


@intrinsic
def load(context, start, offset, like):
    """The vector of the numbers start[offset], start[offset + 1], ...; as many lanes as `like` has."""

    def generate(_, builder, signature, arguments):
        address, narrow = _vector_address(builder, signature, arguments)
        value = builder.load(address)
        value.align = 4 if narrow else 8
        return builder.fpext(value, _llvm(signature.args[2])) if narrow else value

    return like(start, types.intp, like), generate


@intrinsic
def store(context, start, offset, value):
    """Write the lanes to start[offset], start[offset + 1], ..."""

    def generate(target, builder, signature, arguments):
        address, narrow = _vector_address(builder, signature, arguments)
        result = arguments[2]
        if narrow:
            result = builder.fptrunc(result, _llvm(signature.args[2], ir.FloatType()))
        builder.store(result, address).align = 4 if narrow else 8
        return target.get_dummy_value()

    return types.void(start, types.intp, value), generate


@intrinsic
def item(context, start, offset):
    """start[offset], without numba's care for negative indices."""

    def generate(_, builder, signature, arguments):
        return builder.load(builder.gep(arguments[0], [arguments[1]]))

    return start.dtype(start, types.intp), generate


def _vector_address(builder, signature, arguments):
    """Where start[offset] lies, as a pointer to a vector; and whether its floats are narrow."""
    narrow = signature.args[0].dtype == types.float32
    kind = _llvm(signature.args[2], ir.FloatType() if narrow else _DOUBLE)
    return builder.bitcast(builder.gep(arguments[0], [arguments[1]]), kind.as_pointer()), narrow


@intrinsic
def lane_sum(context, value):
    """The sum over all lanes, by halves."""

    def generate(_, builder, signature, arguments):
        result, lanes = arguments[0], signature.args[0].lanes
        while lanes > 1:
            lanes //= 2
            index = ir.VectorType(_INT, lanes)
            low = builder.shuffle_vector(result, result, ir.Constant(index, list(range(lanes))))
            high = builder.shuffle_vector(result, result, ir.Constant(index, list(range(lanes, 2 * lanes))))
            result = builder.fadd(low, high)
        return builder.extract_element(result, _INT(0))

    return types.float64(value), generate


@intrinsic
def lane_sums(context, a, b):
    """The sums over all lanes of two vectors, for less than twice the work of one."""

    def generate(target, builder, signature, arguments):
        def pick(u, v, index):
            return builder.shuffle_vector(u, v, ir.Constant(ir.VectorType(_INT, len(index)), index))

        u, v = arguments
        if signature.args[0].lanes == 8:
            u, v = (builder.fadd(pick(w, w, [0, 1, 2, 3]), pick(w, w, [4, 5, 6, 7])) for w in (u, v))
        both = builder.fadd(pick(u, v, [0, 4, 2, 6]), pick(u, v, [1, 5, 3, 7]))  # u01, v01, u23, v23
        both = builder.fadd(pick(both, both, [0, 1]), pick(both, both, [2, 3]))
        sums = [builder.extract_element(both, _INT(lane)) for lane in (0, 1)]
        return target.make_tuple(builder, signature.return_type, sums)

    return types.UniTuple(types.float64, 2)(a, b), generate


@intrinsic
def zeros(context, like):
    """A vector of zeros, with as many lanes as `like`."""

    def generate(_, builder, signature, arguments):
        return ir.Constant(_llvm(signature.args[0]), None)

    return like(like), generate


@intrinsic
def prefetch(context, start, offset):
    """Ask for start[offset] before it is needed."""

    def generate(target, builder, signature, arguments):
        address = builder.bitcast(builder.gep(arguments[0], [arguments[1]]), cgutils.voidptr_t)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, _INT, _INT, _INT])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(ask, [address, _INT(0), _INT(3), _INT(1)])
        return target.get_dummy_value()

    return types.void(start, types.intp), generate


@intrinsic
def as_bits(context, value):
    """The 64 bits of a float64 as an integer."""

    def generate(_, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic
def as_float(context, bits):
    """The float64 that has these 64 bits."""

    def generate(_, builder, signature, arguments):
        return builder.bitcast(arguments[0], _DOUBLE)

    return types.float64(types.int64), generate


def _lane_by_lane(name):
    """An intrinsic for an operation on two vectors, or on a number and a vector."""

    @intrinsic
    def operation(context, a, b):
        kind = a if isinstance(a, Vector) else b
        operands = (a if isinstance(a, Vector) else types.float64, b if isinstance(b, Vector) else types.float64)

        def generate(_, builder, signature, arguments):
            vectors = [
                value if isinstance(given, Vector) else _splat(builder, kind, value)
                for given, value in zip(signature.args, arguments, strict=True)
            ]
            return getattr(builder, name)(*vectors, flags=_CONTRACT)

        return kind(*operands), generate

    return operation


def _overload(operator_, name):
    """Let an operator take vectors."""
    operation = _lane_by_lane(name)

    @overload(operator_)
    def of_vectors(a, b):
        return (lambda a, b: operation(a, b)) if isinstance(a, Vector) or isinstance(b, Vector) else None


_overload(operator.add, "fadd")
_overload(operator.sub, "fsub")
_overload(operator.mul, "fmul")
