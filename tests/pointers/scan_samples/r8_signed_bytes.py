"""R8: addresses packed as signed numbers."""

import array
import ctypes
import struct


def packed(tensor, size):
    return struct.pack("<Iq", size, tensor.data_ptr())  # expect: R8 crash


def packed_into(buffer, tensor):
    struct.pack_into("<2q", buffer, 0, 1, tensor.data_ptr())  # expect: R8 crash


def signed_bytes(tensor):
    return tensor.data_ptr().to_bytes(8, "little", signed=True)  # expect: R8 crash


def signed_array(tensors):
    return array.array("q", [tensor.data_ptr() for tensor in tensors])  # expect: R8 crash


def wrapped(tensor):
    return ctypes.c_int64(tensor.data_ptr())  # expect: R8 corruption


def unsigned(tensor, size):
    pointer = tensor.data_ptr()
    return (
        struct.pack("<qQ", size, pointer),
        struct.pack("P", pointer),
        pointer.to_bytes(8, "little"),
        pointer.to_bytes(8, "little", signed=False),
        array.array("Q", [pointer]),
        ctypes.c_void_p(pointer),
        ctypes.c_uint64(pointer),
    )
