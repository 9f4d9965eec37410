// Tensors from files and to files.
#include <gtest/gtest.h>

#include <numeric>

#include "base/json.hpp"
#include "base/npy.hpp"
#include "base/safetensors.hpp"
#include "cli/program.hpp"
#include "verify/attention/reference.hpp"

namespace tilesmith {
namespace {
using testing::random_array;
using testing::run;

class RunFiles : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return (directory_.path() / name).string(); }
  /// "--q DIR/q.npy ..." for these names.
  [[nodiscard]] std::string options(std::initializer_list<const char*> names) const {
    std::string out;
    for (const std::string name : names) {
      std::string option = name;
      std::ranges::replace(option, '_', '-');
      out += " --" + option + " " + path(name + ".npy");
    }
    return out;
  }
  void write_offsets(const std::string& name, std::vector<float> values, ElementType type = ElementType::int32) const {
    const auto count = static_cast<std::int64_t>(values.size());
    ASSERT_TRUE(write_npy(path(name + ".npy"), make_array(type, {count}, values)));
  }
  /// What the options ask for must fail with this exit code and message, and leave no output behind.
  void expect_refused(const std::string& words, int code, const std::string& message) const {
    const ProcessOutcome outcome =
        run("run attention_fwd --no-time --dtype fp32 --out " + path("none.npy") + " " + words);
    EXPECT_EQ(outcome.code, code) << words << "\n" << outcome.errors;
    EXPECT_NE(outcome.errors.find(message), std::string::npos) << words << "\n" << outcome.errors;
    EXPECT_EQ(outcome.output, "");
    EXPECT_FALSE(std::filesystem::exists(path("none.npy"))) << words;
  }

  TemporaryDirectory directory_ = TemporaryDirectory::create("tilesmith-run-").value();
};

TensorView view(const HostArray& array, TensorStrides strides) {
  return {array.data.data(), array.type, strides};
}
HostArray rounded(ElementType type, const HostArray& array) {
  return make_array(type, array.shape, array.to_floats());
}

/// Judges what the program wrote.
void expect_right(const AttentionTensors& tensors, ElementType type, const HostArray& o, TensorStrides o_strides,
                  const HostArray* lse = nullptr) {
  const auto reference = AttentionReference::make(tensors, type, 1);
  ASSERT_TRUE(reference) << reference.error().text();
  const std::vector<float> output = read_output(tensors, view(o, o_strides), tensors.head_dim_v);
  const Verdict verdict = lse != nullptr ? reference->judge(output, lse->to_floats()) : reference->judge(output);
  EXPECT_TRUE(verdict.passed()) << verdict.reason;
}

TEST_F(RunFiles, NumPyFilesInTheUsualLayout) {
  const HostArray q = rounded(ElementType::bf16, random_array({2, 4, 9, 64}, 1, path("q.npy")));
  const HostArray k = rounded(ElementType::bf16, random_array({2, 2, 21, 64}, 2, path("k.npy")));
  const HostArray v = rounded(ElementType::bf16, random_array({2, 2, 21, 32}, 3, path("v.npy")));
  const ProcessOutcome outcome = run("run attention_fwd --no-time --mask bottom_right --json --out " + path("o.npy") +
                                     " --lse " + path("lse.npy") + options({"q", "k", "v"}));
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(testing::document(outcome)["problem"]["head_dim_v"], 32) << "sizes come from the files";
  const HostArray o = read_npy(path("o.npy")).value(), lse = read_npy(path("lse.npy")).value();
  EXPECT_EQ(o.type, ElementType::fp32) << "NumPy has no bf16";
  EXPECT_EQ(o.shape, (std::vector<std::int64_t>{2, 4, 9, 32}));
  EXPECT_EQ(lse.shape, (std::vector<std::int64_t>{2, 4, 9}));
  for (const float value : o.to_floats())
    ASSERT_EQ(value, static_cast<float>(round_to(ElementType::bf16, static_cast<double>(value))));
  AttentionTensors t;
  t.q = view(q, {4 * 9 * 64, 9 * 64, 64, 1});
  t.k = view(k, {2 * 21 * 64, 21 * 64, 64, 1});
  t.v = view(v, {2 * 21 * 32, 21 * 32, 32, 1});
  t.batch = 2, t.heads_q = 4, t.heads_kv = 2, t.seqlen_q = 9, t.seqlen_k = 21, t.head_dim_qk = 64, t.head_dim_v = 32;
  t.window_right = 0, t.mask_bottom_right = true;
  t.scale = 0.125F;
  expect_right(t, ElementType::bf16, o, {4 * 9 * 32, 9 * 32, 32, 1}, &lse);
}

TEST_F(RunFiles, SequencesBeforeHeadsWithBiasAndSink) {
  const HostArray q = rounded(ElementType::fp16, random_array({1, 7, 4, 40}, 1, path("q.npy")));
  const HostArray k = rounded(ElementType::fp16, random_array({1, 18, 4, 40}, 2, path("k.npy")));
  const HostArray v = rounded(ElementType::fp16, random_array({1, 18, 4, 40}, 3, path("v.npy")));
  const HostArray bias = random_array({4, 1, 18}, 4, path("bias.npy")), sink = random_array({4}, 5, path("sink.npy"));
  const ProcessOutcome outcome =
      run("run attention_fwd --no-time --dtype fp16 --layout bshd --softcap 5 --scale 0.2 --out " + path("o.npy") +
          options({"q", "k", "v", "bias", "sink"}));
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const HostArray o = read_npy(path("o.npy")).value();
  EXPECT_EQ(o.type, ElementType::fp16);
  EXPECT_EQ(o.shape, (std::vector<std::int64_t>{1, 7, 4, 40}));
  AttentionTensors t;
  t.q = view(q, {0, 40, 160, 1});
  t.k = view(k, {0, 40, 160, 1});
  t.v = view(v, {0, 40, 160, 1});
  t.bias = reinterpret_cast<const float*>(bias.data.data());
  t.bias_strides = {0, 18, 0, 1};
  t.sink = reinterpret_cast<const float*>(sink.data.data());
  t.heads_q = t.heads_kv = 4, t.seqlen_q = 7, t.seqlen_k = 18, t.head_dim_qk = t.head_dim_v = 40;
  t.soft_cap = 5, t.scale = 0.2F;
  expect_right(t, ElementType::fp16, o, {0, 40, 160, 1});
}

TEST_F(RunFiles, ATreeOfDraftedTokens) {
  const HostArray q = random_array({2, 2, 3, 32}, 1, path("q.npy")), k = random_array({2, 2, 9, 32}, 2, path("k.npy")),
                  v = random_array({2, 2, 9, 32}, 3, path("v.npy"));
  // Two branches that leave the first token; the second sequence's is a chain.
  const std::vector<float> seen = {1, 0, 0, 1, 1, 0, 1, 0, 1, /**/ 1, 0, 0, 1, 1, 0, 1, 1, 1};
  ASSERT_TRUE(write_npy(path("tree.npy"), make_array(ElementType::boolean, {2, 3, 3}, seen)));
  const std::string call = "run attention_fwd --no-time --dtype fp32 --tree-mask " + path("tree.npy");
  const ProcessOutcome outcome = run(call + " --verify --out " + path("o.npy") + options({"q", "k", "v"}));
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  std::vector<float> bias(2 * 3 * 9, 0.0F);
  for (std::size_t row = 0; row < 6; ++row)
    for (std::size_t t = 0; t < 3; ++t)
      if (seen[row * 3 + t] == 0) bias[row * 9 + 6 + t] = -std::numeric_limits<float>::infinity();
  AttentionTensors t;
  t.q = view(q, {2 * 3 * 32, 3 * 32, 32, 1});
  t.k = view(k, {2 * 9 * 32, 9 * 32, 32, 1});
  t.v = view(v, {2 * 9 * 32, 9 * 32, 32, 1});
  t.bias = bias.data();
  t.bias_strides = {3 * 9, 0, 9, 1};
  t.batch = 2, t.heads_q = t.heads_kv = 2, t.seqlen_q = 3, t.seqlen_k = 9, t.head_dim_qk = t.head_dim_v = 32;
  t.scale = 1.0F / std::sqrt(32.0F);
  expect_right(t, ElementType::fp32, read_npy(path("o.npy")).value(), {2 * 3 * 32, 3 * 32, 32, 1});
  const std::string mask = " --tree-mask " + path("tree.npy");
  expect_refused(options({"q", "k"}) + mask + " --bias " + path("q.npy"), 2, "--bias and --tree-mask are given");
  expect_refused("--batch 2 --seqlen-q 3 --seqlen-k 9 --page-size 4" + mask, 2, "--tree-mask with --page-size");
  expect_refused("--batch 2 --seqlen-q 4 --seqlen-k 9" + mask, 2, "the tree mask has shape (2, 3, 3)");
}

TEST_F(RunFiles, GroupsFromSafetensorsIntoSafetensors) {
  const HostArray q = random_array({3, 12, 32}, 1), k = random_array({3, 30, 32}, 2), v = random_array({3, 30, 32}, 3),
                  alibi = random_array({2, 3}, 4);
  ASSERT_TRUE(write_safetensors(path("in.safetensors"), {{"layer.q", q}, {"layer.k", k}, {"layer.v", v}}));
  ASSERT_TRUE(write_safetensors(path("alibi.safetensors"), {{"slopes", alibi}}));
  write_offsets("cu_seqlens_q", {0, 0, 12}, ElementType::int64);
  write_offsets("cu_seqlens_k", {0, 11, 30});
  const std::string in = path("in.safetensors"), out = path("out.safetensors");
  const ProcessOutcome outcome =
      run("run attention_fwd --no-time --dtype fp32 --q " + in + ":layer.q --k " + in + ":layer.k --v " + in +
          ":layer.v --alibi " + path("alibi.safetensors") + " --mask top_left --out " + out + " --lse " + out +
          ":logsumexp" + options({"cu_seqlens_q", "cu_seqlens_k"}));
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const auto written = SafetensorsFile::open(out);
  ASSERT_TRUE(written) << written.error().text();
  ASSERT_EQ(written->entries().size(), 2u) << "both tensors are in the file";
  const HostArray o = written->read("o").value(), lse = written->read("logsumexp").value();
  EXPECT_EQ(lse.shape, (std::vector<std::int64_t>{3, 12}));
  const std::int32_t cu_q[] = {0, 0, 12}, cu_k[] = {0, 11, 30};
  AttentionTensors t;
  t.q = view(q, {0, 12 * 32, 32, 1});
  t.k = view(k, {0, 30 * 32, 32, 1});
  t.v = view(v, {0, 30 * 32, 32, 1});
  t.alibi = reinterpret_cast<const float*>(alibi.data.data());
  t.alibi_batch_stride = 3;
  t.cu_seqlens_q = cu_q, t.cu_seqlens_k = cu_k;
  t.batch = 2, t.heads_q = t.heads_kv = 3, t.seqlen_q = 12, t.seqlen_k = 19, t.head_dim_qk = t.head_dim_v = 32;
  t.window_right = 0;
  t.scale = 1.0F / std::sqrt(32.0F);
  expect_right(t, ElementType::fp32, o, {0, 12 * 32, 32, 1}, &lse);
}

TEST_F(RunFiles, FilesThatDoNotFitAreRefused) {
  static_cast<void>(random_array({1, 2, 5, 32}, 1, path("q.npy")));
  static_cast<void>(random_array({1, 2, 6, 32}, 1, path("k.npy")));
  static_cast<void>(random_array({1, 2, 7, 32}, 1, path("v.npy")));
  static_cast<void>(random_array({2, 5, 32}, 1, path("flat.npy")));
  static_cast<void>(random_array({5}, 1, path("bias.npy")));
  expect_refused(options({"q", "k", "v"}), 2, "seqlen_k is 6");
  expect_refused(options({"q", "k"}) + " --heads-q 4", 2, "heads_q is 4 by --heads-q and 2");
  expect_refused("--q " + path("flat.npy"), 2, "q has shape (2, 5, 32)");
  expect_refused(options({"q", "k", "bias"}), 2, "broadcasts to (1, 2, 5, 6)");
  const HostArray floats = random_array({1, 2, 5, 32}, 1);
  ASSERT_TRUE(write_npy(path("integers.npy"), make_array(ElementType::int32, floats.shape, floats.to_floats())));
  expect_refused("--q " + path("integers.npy"), 2, "q has elements of type int32");
  ASSERT_TRUE(write_npy(path("integer_bias.npy"), make_array(ElementType::int64, {6}, std::vector<float>(6, 1.0F))));
  expect_refused(options({"q", "k"}) + " --bias " + path("integer_bias.npy"), 2, "bias has elements of type int64");
  ASSERT_TRUE(write_safetensors(path("two.safetensors"), {{"queries", floats}, {"keys", floats}}));
  expect_refused("--q " + path("two.safetensors"), 2, "holds 2 tensors and none is named");
  expect_refused("--q " + path("two.safetensors") + ":querys", 1, "querys");
}

TEST_F(RunFiles, OffsetsThatMakeNoSenseAreRefused) {
  static_cast<void>(random_array({2, 9, 32}, 1, path("q.npy")));
  const std::string tensors = options({"q", "cu_seqlens_q", "cu_seqlens_k"});
  write_offsets("cu_seqlens_q", {0, 4, 9});
  write_offsets("cu_seqlens_k", {0, 3, 5});
  expect_refused(options({"q", "cu_seqlens_q"}), 2, "only one of --cu-seqlens-q and --cu-seqlens-k");
  expect_refused(tensors + " --batch 3", 2, "batch is 3 by --batch and 2 by --cu-seqlens-q");
  expect_refused(tensors + " --mode batch", 2, "offsets belong to group mode");
  for (const auto& [offsets, message] : {std::pair{std::vector<float>{0, 9, 4}, "length -5"},
                                         {{1, 4, 9}, "cu_seqlens_q[0] is 1"},
                                         {{0, 4}, "batch is 1"},
                                         {{}, "batch + 1 integers"},
                                         {{0, 4, 8}, "q has shape (2, 9, 32)"}}) {
    write_offsets("cu_seqlens_q", offsets);
    expect_refused(tensors, 2, message);
  }
  write_offsets("cu_seqlens_q", {0, -4, 9});
  expect_refused(tensors, 2, "[1] is -4");
  write_offsets("cu_seqlens_q", {0, 4, 9}, ElementType::fp32);
  expect_refused(tensors, 2, "batch + 1 integers");
}

TEST_F(RunFiles, TruncatedFilesAreRefused) {
  static_cast<void>(random_array({1, 2, 5, 32}, 1, path("q.npy")));
  const std::string whole = read_file(path("q.npy")).value();
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{5}, std::size_t{20}, std::size_t{128}, whole.size() - 1}) {
    ASSERT_TRUE(write_file_atomic(path("q.npy"), whole.substr(0, bytes)));
    expect_refused(options({"q"}), 1, "q.npy");
  }
}

TEST_F(RunFiles, AFullDiskLeavesTheOldOutput) {
  ASSERT_TRUE(write_file_atomic(path("o.npy"), "the old output"));
  const std::string words =
      "run attention_fwd --no-time --dtype fp32 --heads-q 4 --seqlen-q 300 --head-dim-qk 64 --out " + path("o.npy");
  ASSERT_EQ(run("run attention_fwd --no-time --dtype fp32 --heads-q 4 --seqlen-q 300 --head-dim-qk 64").code, 0)
      << "the kernel is in the store now";
  const ProcessOutcome outcome = testing::run_by("trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\"", words);
  EXPECT_EQ(outcome.code, 1) << outcome.errors;
  EXPECT_NE(outcome.errors.find("error: "), std::string::npos);
  EXPECT_EQ(read_file(path("o.npy")).value(), "the old output");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_.path()), {}), 1)
      << "nothing half-written is left";
}

TEST_F(RunFiles, AnOutputThatCannotBeWrittenIsAFailure) {
  expect_refused("--seqlen-q 5 --head-dim-qk 64 --lse /nonexistent/lse.npy", 1, "/nonexistent");
}

}  // namespace
}  // namespace tilesmith
