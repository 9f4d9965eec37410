"""The CUDA driver through ctypes: modules, launches, tensor maps. The structures mirror kernels/cuda/abi.h."""

import ctypes

_cuda = None


def cuda():
    global _cuda
    if _cuda is None:
        _cuda = ctypes.CDLL("libcuda.so.1")
    return _cuda


def check(code, what):
    if code:
        text = ctypes.c_char_p()
        cuda().cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError(f"{what}: {text.value.decode() if text.value else code}")


class Strides(ctypes.Structure):
    _fields_ = [(n, ctypes.c_longlong) for n in ("batch", "head", "row", "column")]


class Args(ctypes.Structure):
    _fields_ = (
        [
            (n, ctypes.c_void_p)
            for n in (
                "q",
                "k",
                "v",
                "o",
                "lse",
                "bias",
                "alibi",
                "sink",
                "cu_seqlens_q",
                "cu_seqlens_k",
                "tile_counters",
            )
        ]
        + [(n + "_strides", Strides) for n in ("q", "k", "v", "o", "bias", "lse")]
        + [
            (n, ctypes.c_longlong)
            for n in (
                "alibi_batch_stride",
                "batch",
                "heads_q",
                "heads_kv",
                "seqlen_q",
                "seqlen_k",
                "window_left",
                "window_right",
            )
        ]
        + [
            ("seed", ctypes.c_ulonglong),
            ("offset", ctypes.c_ulonglong),
            ("scale", ctypes.c_float),
            ("softcap", ctypes.c_float),
            ("mask_bottom_right", ctypes.c_int),
            ("drop_threshold", ctypes.c_uint),
            ("work_items", ctypes.c_int),
            ("row_tiles", ctypes.c_int),
            ("section_heads", ctypes.c_int),
        ]
    )


class TensorMaps(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * (4 * 128))]


# Element types of a tensor map.
UINT8, BITS16, FLOAT32 = 0, 1, 7


def encode_tensor_map(destination, pointer, dims, strides, box, element=BITS16):
    """A map with the 128-byte swizzle and zero fill; strides in bytes, of every dimension but the innermost."""
    rank = len(dims)
    check(
        cuda().cuTensorMapEncodeTiled(
            ctypes.c_void_p(destination),
            element,
            rank,
            ctypes.c_void_p(pointer),
            (ctypes.c_ulonglong * rank)(*[max(1, d) for d in dims]),
            (ctypes.c_ulonglong * (rank - 1))(*strides),
            (ctypes.c_uint * rank)(*box),
            (ctypes.c_uint * rank)(*([1] * rank)),
            0,
            3,
            2,
            0,
        ),
        f"cuTensorMapEncodeTiled dims {dims} strides {strides} box {box}",
    )


class Kernel:
    """A loaded entry point with its launch facts."""

    def __init__(self, cubin, threads, shared_bytes):
        self.threads, self.shared_bytes, self.cubin = threads, shared_bytes, cubin
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        check(cuda().cuModuleLoadData(ctypes.byref(module), cubin), "cuModuleLoadData")
        check(
            cuda().cuModuleGetFunction(ctypes.byref(self.function), module, b"ts_attention_fwd"), "cuModuleGetFunction"
        )
        check(cuda().cuFuncSetAttribute(self.function, 8, shared_bytes), f"{shared_bytes} bytes of shared memory")

    def launcher(self, grid, parameters, stream):
        """A closure that launches with these parameters: what is timed is the launch, not the packing."""
        array = (ctypes.c_void_p * len(parameters))(*[ctypes.addressof(p) for p in parameters])
        launch, function = cuda().cuLaunchKernel, self.function
        threads, shared = self.threads, self.shared_bytes
        stream = ctypes.c_void_p(stream)

        def go(keep=parameters):
            check(
                launch(function, grid[0], grid[1], grid[2], threads, 1, 1, shared, stream, array, None),
                "cuLaunchKernel",
            )

        return go
