// A kernel that packs B once, for kernels of packed B: its workspace is its result.

long long workspace_size(const void* args_pointer) {
  return packed_b_bytes(arguments(args_pointer));
}

long long scratch_size(const void*) {
  return 0;
}
