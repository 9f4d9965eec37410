// .npy and safetensors: files written by NumPy and by the safetensors package (golden/make.py), round trips, and broken
// files.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "base/file.hpp"
#include "base/npy.hpp"
#include "base/random.hpp"
#include "base/safetensors.hpp"

namespace tilesmith {
namespace {

using Shape = std::vector<std::int64_t>;

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(TILESMITH_SOURCE_DIR) / "tests/base/golden" / name;
}

class TensorFiles : public ::testing::Test {
 protected:
  std::filesystem::path path(const std::string& name) const { return directory_->path() / name; }
  std::filesystem::path write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  Result<TemporaryDirectory> directory_ = TemporaryDirectory::create("tensor_files_test");
};

std::string npy(const std::string& header, std::size_t element_bytes, char major = 1) {
  std::string file("\x93NUMPY");
  file += {major, '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  if (major == 2) file += {'\0', '\0'};
  return file + header + std::string(element_bytes, '\0');
}

TEST_F(TensorFiles, NpyReadsEveryTypeNumPyWrites) {
  const std::pair<const char*, ElementType> files[] = {
      {"f8", ElementType::fp64},      {"f4", ElementType::fp32},   {"f2", ElementType::fp16},
      {"i8", ElementType::int64},     {"i4", ElementType::int32},  {"i2", ElementType::int16},
      {"i1", ElementType::int8},      {"u8", ElementType::uint64}, {"u4", ElementType::uint32},
      {"u2", ElementType::uint16},    {"u1", ElementType::uint8},  {"b1", ElementType::boolean},
      {"version2", ElementType::fp32}};
  for (const auto& [name, type] : files) {
    SCOPED_TRACE(name);
    const auto array = read_npy(golden(std::string(name) + ".npy"));
    ASSERT_TRUE(array) << array.error().text();
    EXPECT_EQ(array->type, type);
    EXPECT_EQ(array->shape, (Shape{3, 4}));
    const std::vector<float> values = array->to_floats();
    for (int i = 0; i < 12; ++i) {
      const int integer = i - 3;
      const float want = name[0] == 'f'   ? 0.5F * static_cast<float>(integer)
                         : name[0] == 'u' ? static_cast<float>(i)
                         : name[0] == 'b' ? static_cast<float>(integer % 2 == 0)
                                          : static_cast<float>(integer);
      EXPECT_EQ(values[static_cast<std::size_t>(i)], want);
    }
  }
}

TEST_F(TensorFiles, NpyTurnsColumnMajorFilesRowMajor) {
  const auto array = read_npy(golden("fortran.npy"));
  ASSERT_TRUE(array) << array.error().text();
  EXPECT_EQ(array->shape, (Shape{2, 3, 4}));
  const std::vector<float> values = array->to_floats();
  for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(values[i], static_cast<float>(i));
}

TEST_F(TensorFiles, NpyReadsScalarsAndEmptyArrays) {
  const auto scalar = read_npy(golden("scalar.npy"));
  ASSERT_TRUE(scalar);
  EXPECT_EQ(scalar->shape, Shape{});
  EXPECT_EQ(scalar->to_floats(), std::vector<float>{2.5F});
  const auto empty = read_npy(golden("empty.npy"));
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->shape, (Shape{0, 3}));
  EXPECT_EQ(empty->count(), 0u);
}

TEST_F(TensorFiles, NpyRoundTripsEveryTypeAndWidensWhatNumPyLacks) {
  std::vector<float> values(30);
  fill_normal(values, {3, 3}, 20.0F);
  for (const ElementType type : kElementTypes)
    for (const Shape& shape : {Shape{30}, Shape{5, 6}, Shape{1, 2, 3, 5, 1}}) {
      SCOPED_TRACE(to_string(type));
      const HostArray array = make_array(type, shape, values);
      ASSERT_TRUE(write_npy(path("a.npy"), array));
      const auto back = read_npy(path("a.npy"));
      ASSERT_TRUE(back) << back.error().text();
      const bool widened = type == ElementType::bf16 || type == ElementType::fp8e4m3 || type == ElementType::fp8e5m2;
      EXPECT_EQ(back->type, widened ? ElementType::fp32 : type);
      EXPECT_EQ(back->shape, shape);
      EXPECT_EQ(back->to_floats(), array.to_floats());
    }
}

TEST_F(TensorFiles, NpyWritesTheBytesNumPyWrites) {
  const auto array = read_npy(golden("f4.npy"));
  ASSERT_TRUE(array);
  ASSERT_TRUE(write_npy(path("again.npy"), *array));
  EXPECT_EQ(*read_file(path("again.npy")), *read_file(golden("f4.npy")));
}

TEST_F(TensorFiles, NpyRefusesBrokenFilesByName) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  ASSERT_TRUE(parse_npy(npy(good, 24)));
  ASSERT_TRUE(parse_npy(npy(good, 24, 2)));
  const std::pair<std::string, const char*> files[] = {
      {"", "no .npy file"},
      {"PK\3\4", "no .npy file"},
      {std::string("\x93NUMPY\1\0", 8), "inside its header"},
      {npy(good, 24, 3), "version 3.0"},
      {npy(good, 23), "takes 24"},
      {npy(good, 25), "takes 24"},
      {npy(good, 24).substr(0, 40), "the file has 30 left"},
      {std::string("\x93NUMPY\2\0\xff\xff\xff\x7f", 12), "at most 65536"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }", 24), "negative size -2"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 24),
       "more elements than memory"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 24), "a size below"},
      {npy("{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }", 24), "'<c8' is not supported"},
      {npy("{'descr': '', 'fortran_order': False, 'shape': (3,), }", 24), "'' is not supported"},
      {npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", 12), "a string"},
      {npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (3,), }", 12), "True or False"},
      {npy("{'descr': '<f4', 'fortran_order': False, }", 12), "lacks"},
      {npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 12),
       "'descr' is unknown or there twice"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 'x'}", 12), "'more'"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), } x", 12), "the end of the header"},
      {npy("{'descr': '<f4", 12), "the end of a string"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3", 12), "')'"},
      {npy("", 12), "'{'"},
  };
  for (const auto& [content, word] : files) {
    const auto array = read_npy(write("broken.npy", content));
    ASSERT_FALSE(array) << word;
    EXPECT_EQ(array.error().code, ErrorCode::parse);
    EXPECT_NE(array.error().text().find(word), std::string::npos) << array.error().text();
    EXPECT_NE(array.error().message.find("broken.npy: "), std::string::npos) << array.error().text();
  }
  for (const auto& [name, word] :
       {std::pair{"big_endian.npy", "array.astype('<f4')"}, {"bfloat16.npy", "as float32"}}) {
    const auto array = read_npy(golden(name));
    ASSERT_FALSE(array);
    EXPECT_NE(array.error().hint.find(word), std::string::npos) << array.error().text();
  }
  EXPECT_FALSE(read_npy(path("missing.npy")));
  EXPECT_FALSE(read_npy(golden("f4.npy"), 100)) << "larger than the limit";
}

TEST_F(TensorFiles, NpySurvivesEveryTruncationAndRandomDamage) {
  const std::string whole = *read_file(golden("f4.npy"));
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(parse_npy(whole.substr(0, length))) << length;
  const RandomStream random{1, 1};
  for (std::uint64_t i = 0; i < 20000; ++i) {
    std::string damaged = whole;
    for (std::uint64_t k = 0; k <= i % 3; ++k)
      damaged[random.below(4 * i + k, 128)] = static_cast<char>(random.bits(100000 + 4 * i + k));
    const auto array = parse_npy(damaged);  // must return, whatever it returns
    EXPECT_LE(array ? array->data.size() : 0, whole.size());
  }
}

TEST_F(TensorFiles, NpyRefusesToWriteAnArrayThatDoesNotFitItsShape) {
  HostArray array = make_array(ElementType::fp32, {2, 2}, std::vector<float>(4));
  array.shape = {2, 3};
  const Status status = write_npy(path("a.npy"), array);
  ASSERT_FALSE(status);
  EXPECT_FALSE(std::filesystem::exists(path("a.npy")));
}

TEST_F(TensorFiles, SafetensorsReadsWhatThePackageWrites) {
  const auto file = SafetensorsFile::open(golden("tensors.safetensors"));
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(file->entries().size(), 6u);
  const std::pair<const char*, ElementType> tensors[] = {{"f32", ElementType::fp32},  {"f16", ElementType::fp16},
                                                         {"bf16", ElementType::bf16}, {"e4m3", ElementType::fp8e4m3},
                                                         {"i32", ElementType::int32}, {"i64", ElementType::int64}};
  for (const auto& [name, type] : tensors) {
    const auto array = file->read(name);
    ASSERT_TRUE(array) << array.error().text();
    EXPECT_EQ(array->type, type);
    EXPECT_EQ(array->shape, (Shape{3, 4}));
    const std::vector<float> values = array->to_floats();
    for (std::size_t i = 0; i < 12; ++i)
      EXPECT_EQ(values[i], (static_cast<float>(i) - 3) * (name[0] == 'i' ? 1.0F : 0.5F)) << name;
  }
  const auto missing = file->read("bf61");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_NE(missing.error().hint.find("bf16"), std::string::npos) << missing.error().text();
}

TEST_F(TensorFiles, SafetensorsRoundTripsEveryType) {
  std::vector<float> values(12);
  fill_normal(values, {4, 4}, 10.0F);
  std::vector<std::pair<std::string, HostArray>> tensors;
  for (const ElementType type : kElementTypes) tensors.emplace_back(to_string(type), make_array(type, {3, 4}, values));
  tensors.emplace_back("nothing", make_array(ElementType::fp16, {0, 7}, {}));
  ASSERT_TRUE(write_safetensors(path("t.safetensors"), tensors));
  const auto file = SafetensorsFile::open(path("t.safetensors"));
  ASSERT_TRUE(file) << file.error().text();
  for (const auto& [name, array] : tensors) {
    const auto back = file->read(name);
    ASSERT_TRUE(back) << name;
    EXPECT_EQ(back->type, array.type);
    EXPECT_EQ(back->shape, array.shape);
    EXPECT_EQ(back->data, array.data);
  }
  tensors.push_back(tensors.front());
  EXPECT_FALSE(write_safetensors(path("twice.safetensors"), tensors));
}

std::string safetensors(const std::string& header, std::size_t bytes) {
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size() & 0xff);
  file[1] = static_cast<char>(header.size() >> 8);
  return file + header + std::string(bytes, '\0');
}

TEST_F(TensorFiles, SafetensorsRefusesBrokenFilesByName) {
  ASSERT_TRUE(SafetensorsFile::open(
      write("good.safetensors", safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8))));
  const std::pair<std::string, const char*> files[] = {
      {"", "has 0 bytes"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10), "at most 100000000"},
      {safetensors("{}", 0).substr(0, 9), "the header claims 2"},
      {safetensors("[]", 0), "not a JSON object"},
      {safetensors("{\"a\":", 0), "not a JSON object"},
      {safetensors(std::string(5000, '['), 0), "not a JSON object"},
      {safetensors(R"({"a":3})", 0), "tensor 'a': the entry is not an object"},
      {safetensors(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8), "did you mean"},
      {safetensors(R"({"a":{"dtype":4,"shape":[2],"data_offsets":[0,8]}})", 8), "'dtype' is not a string"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8), "'shape' holds -2"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", 8), "'shape' holds 2.5"},
      {safetensors(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8), "'shape' is not a list"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", 8),
       "more elements"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8), "takes 12"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), "not [begin, end]"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})", 16), "gap"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4), "4 bytes of tensors"},
      {safetensors(
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
           1),
       "there twice"},
  };
  for (const auto& [content, word] : files) {
    const auto file = SafetensorsFile::open(write("broken.safetensors", content));
    ASSERT_FALSE(file) << word;
    EXPECT_NE(file.error().text().find(word), std::string::npos) << file.error().text();
    EXPECT_NE(file.error().message.find("broken.safetensors"), std::string::npos) << file.error().text();
  }
  EXPECT_FALSE(SafetensorsFile::open(path("missing")));
  EXPECT_FALSE(SafetensorsFile::open(directory_->path()));
}

}  // namespace
}  // namespace tilesmith
