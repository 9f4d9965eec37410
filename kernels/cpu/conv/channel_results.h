// Sums of groups of few channels on their way to the result.

// Of an element.
TS_INLINE long long bytes_of(TsGemmElement type) {
  return type == TS_FP32 ? 4 : type == TS_INT8 ? 1 : 2;
}

// A call as the epilogue sees it, which knows groups of one channel: the channels of wider groups, from `group` on, are
// its groups.
struct ChannelsAsGroups : TsConvArgs {
  TsConvOperand operands[TS_GEMM_MAX_OPERATIONS];

  ChannelsAsGroups(const TsConvArgs& args, long long group) : TsConvArgs(args) {
    const auto behind = [](const void* from, long long bytes) {
      return const_cast<char*>(static_cast<const char*>(from)) + bytes;
    };
    TsConvStrides& written = kForward ? y_strides : x_strides;
    out = behind(out, group * written.group * bytes_of(out_type));
    written.group = written.channel;
    for (int i = 0; i < TS_GEMM_MAX_OPERATIONS && operations[i] != TS_END; ++i) {
      TsConvOperand& operand = operands[i] = args.operand[i];
      const bool tensor = operations[i] == TS_ADD || operations[i] == TS_MULTIPLY;
      const long long step = tensor ? operand.strides.group * bytes_of(out_type)
                                    : c * (operations[i] == TS_BIAS ? bytes_of(bias_type) : 4);
      if (operand.data != nullptr) operand.data = behind(operand.data, group * step);
      operand.strides.group = operand.strides.channel;
    }
    operand = operands;
  }
};

// Whether the result, and every tensor that the epilogue reads, has its channels evenly.
inline bool writes_evenly(const TsConvArgs& args) {
  const long long width = width_of(args);
  bool even = is_even(kForward ? args.y_strides : args.x_strides, width);
  for (int i = 0; i < TS_GEMM_MAX_OPERATIONS && args.operations[i] != TS_END; ++i)
    if (args.operations[i] == TS_ADD || args.operations[i] == TS_MULTIPLY)
      even = even && is_even(args.operand[i].strides, width);
  return even;
}

// Up to kResultLines pixels from i on of a phase's line, whose first is `pixel` but for its innermost coordinate:
// channels first .. end - 1, from lines of sums `sums_row` apart. `written`: the call as the epilogue sees it, where
// all lies evenly.
inline void finish_channels(const TsConvArgs& args, const TsConvArgs& written, bool even, const Phase& phase,
                            const Pixel& pixel, long long i, int pixels, long long first, long long end,
                            const float* from, long long sums_row) {
  const TsConvStrides& strides = (kForward ? written.y_strides : written.x_strides);
  ResultLines lines;
  lines.count = pixels;
  for (int p = 0; p < pixels; ++p) {
    lines.pixel[p] = pixel;
    lines.pixel[p].at[2] = phase.axis[2].first + (i + p) * phase.axis[2].step;
  }
  const auto unchanged = [](Vec sum, int) { return sum; };
  if (even)
    return finish_lines(written, strides, channels_of(args), lines, first, (int)(end - first), from, sums_row,
                        unchanged);
  const long long width = width_of(args);
  for (long long channel = first; channel < end; channel += width)
    finish_lines(ChannelsAsGroups(args, channel / width), strides, width, lines, 0, (int)width,
                 from + (channel - first), sums_row, unchanged);
}
