"""The CUDA driver through ctypes: modules, launches, tensor maps. The structures mirror kernels/cuda/attention/abi.h."""

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


class Scale(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p)] + [(n, ctypes.c_longlong) for n in ("batch", "head", "block")]


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
        + [(n + "_scale", Scale) for n in "qkv"]
    )


class TensorMaps(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * (4 * 128))]


# Element types of a tensor map, in the driver's numbers, and its swizzles by the bytes they span.
UINT8, BITS16, UINT32, FLOAT32, TFLOAT32 = 0, 1, 2, 7, 11
SWIZZLES = {32: 1, 64: 2, 128: 3}


def encode_tensor_map(destination, pointer, dims, strides, box, element=BITS16, swizzle=SWIZZLES[128]):
    """A map with zero fill; strides in bytes, of every dimension but the innermost."""
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
            swizzle,
            2,
            0,
        ),
        f"cuTensorMapEncodeTiled dims {dims} strides {strides} box {box}",
    )


class LaunchAttribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class LaunchConfig(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("attribute_count", ctypes.c_uint),
    ]


class Kernel:
    """A loaded entry point with its launch facts."""

    def __init__(self, cubin, threads, shared_bytes, entry=b"ts_attention_fwd"):
        self.threads, self.shared_bytes, self.cubin = threads, shared_bytes, cubin
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        check(cuda().cuModuleLoadData(ctypes.byref(module), cubin), "cuModuleLoadData")
        check(
            cuda().cuModuleGetFunction(ctypes.byref(self.function), module, entry), "cuModuleGetFunction"
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

    def launcher_with(self, grid, parameters, stream, cluster=1, overlap=False):
        """The same for launches with clusters or with an overlap of the kernel before."""
        array = (ctypes.c_void_p * len(parameters))(*[ctypes.addressof(p) for p in parameters])
        attributes = []
        if cluster > 1:
            attributes.append(LaunchAttribute(id=4, value=(ctypes.c_uint * 16)(cluster, 1, 1)))
        if overlap:
            attributes.append(LaunchAttribute(id=6, value=(ctypes.c_uint * 16)(1)))
        held = (LaunchAttribute * max(1, len(attributes)))(*attributes)
        config = LaunchConfig(
            grid=grid,
            block=(self.threads, 1, 1),
            shared_bytes=self.shared_bytes,
            stream=stream,
            attributes=held,
            attribute_count=len(attributes),
        )
        launch, function = cuda().cuLaunchKernelEx, self.function

        def go(keep=(parameters, held)):
            check(launch(ctypes.byref(config), function, array, None), "cuLaunchKernelEx")

        return go
