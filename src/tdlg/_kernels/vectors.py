"""Short vectors of float64 that live in registers: a numba type over LLVM's own vectors, no C.

`vector(t)` makes one of a tuple, and so the number of lanes is known when a kernel is compiled. Vectors add, subtract and
multiply with each other and with numbers, lane by lane; a product and a sum that follow each other become one instruction
where the processor has it. LLVM splits vectors wider than the processor's registers, so kernels run everywhere.
"""

import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

_DOUBLE = ir.DoubleType()
_INT = ir.IntType(32)
_CONTRACT = ("contract",)


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
def load(context, array, start, like):
    """array.flat[start : start + lanes], for a contiguous array of float64 or float32; as many lanes as `like` has."""

    def generate(target, builder, signature, arguments):
        pointer, narrow = _address(target, builder, signature, arguments)
        value = builder.load(pointer)
        value.align = 4 if narrow else 8
        return builder.fpext(value, _llvm(signature.args[2])) if narrow else value

    return like(array, types.intp, like), generate


@intrinsic
def store(context, array, start, value):
    """array.flat[start : start + lanes] = value."""

    def generate(target, builder, signature, arguments):
        pointer, narrow = _address(target, builder, signature, arguments)
        result = arguments[2]
        if narrow:
            result = builder.fptrunc(result, _llvm(signature.args[2], ir.FloatType()))
        builder.store(result, pointer).align = 4 if narrow else 8
        return target.get_dummy_value()

    return types.void(array, types.intp, value), generate


def _address(target, builder, signature, arguments):
    """Where array.flat[start] lies, as a pointer to a vector; and whether its floats are narrow."""
    array_type, kind = signature.args[0], signature.args[2]
    narrow = array_type.dtype == types.float32
    element = ir.FloatType() if narrow else _DOUBLE
    data = target.make_array(array_type)(target, builder, arguments[0]).data
    return builder.bitcast(builder.gep(data, [arguments[1]]), _llvm(kind, element).as_pointer()), narrow


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
def keep_if(context, condition, value):
    """The value, or zeros; also where a lane is not a number, which a product with 0 would keep."""

    def generate(_, builder, signature, arguments):
        return builder.select(arguments[0], arguments[1], ir.Constant(_llvm(signature.args[1]), None))

    return value(types.boolean, value), generate


@intrinsic
def zeros(context, like):
    """A vector of zeros, with as many lanes as `like`."""

    def generate(_, builder, signature, arguments):
        return ir.Constant(_llvm(signature.args[0]), None)

    return like(like), generate


@intrinsic
def prefetch(context, array, index):
    """Ask for array.flat[index] before it is needed."""

    def generate(target, builder, signature, arguments):
        data = target.make_array(signature.args[0])(target, builder, arguments[0]).data
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, _INT, _INT, _INT])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(ask, [pointer, _INT(0), _INT(3), _INT(1)])
        return target.get_dummy_value()

    return types.void(array, types.intp), generate


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


_add, _subtract, _multiply = _lane_by_lane("fadd"), _lane_by_lane("fsub"), _lane_by_lane("fmul")


def _has_vector(a, b):
    return isinstance(a, Vector) or isinstance(b, Vector)


@overload(operator.add)
def _overload_add(a, b):
    return (lambda a, b: _add(a, b)) if _has_vector(a, b) else None


@overload(operator.sub)
def _overload_sub(a, b):
    return (lambda a, b: _subtract(a, b)) if _has_vector(a, b) else None


@overload(operator.mul)
def _overload_mul(a, b):
    return (lambda a, b: _multiply(a, b)) if _has_vector(a, b) else None
