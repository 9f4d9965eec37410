#include <array>

#include "tune/random_shapes.hpp"

namespace tilesmith {
namespace {

constexpr std::array<std::string_view, 8> kGemmFamilies = {"square", "tall",   "wide",    "few_rows",
                                                           "long_k", "primes", "batched", "models"};

/// Columns and depth of a projection.
struct Projection {
  std::int64_t n, k;
};

/// Those of Llama 3 (8B, 70B), Qwen 2.5 (7B), DeepSeek V3 and GPT-OSS (120B), as their published configurations give
/// them: queries, keys and values together; gate and up together.
constexpr std::array<Projection, 21> kProjections = {
    {{6144, 4096},  {4096, 4096},  {28672, 4096}, {4096, 14336}, {10240, 8192}, {8192, 8192},  {57344, 8192},
     {8192, 28672}, {4608, 3584},  {37888, 3584}, {3584, 18944}, {1536, 7168},  {24576, 1536}, {576, 7168},
     {32768, 512},  {7168, 16384}, {4096, 7168},  {7168, 2048},  {5120, 2880},  {2880, 4096},  {2880, 2880}}};

bool is_prime(std::int64_t number) {
  for (std::int64_t divisor = 2; divisor * divisor <= number; ++divisor)
    if (number % divisor == 0) return false;
  return number > 1;
}

std::int64_t prime(ShapeRandom& random, std::int64_t low, std::int64_t high) {
  std::int64_t number = random.size(low, high);
  while (!is_prime(number)) ++number;
  return number;
}

}  // namespace

std::span<const std::string_view> ShapeFamilies<Gemm>::families() {
  return kGemmFamilies;
}

GemmProblem ShapeFamilies<Gemm>::draw(std::string_view family, DataType type, ShapeRandom& random) {
  const auto sized = [&](std::int64_t m, std::int64_t n, std::int64_t k) { return gemm_problem(type, m, n, k); };
  if (family == "square") {
    const std::int64_t side = random.size(64, 8192, 8);
    return sized(side, side, side);
  }
  if (family == "tall") {
    const std::int64_t n = random.size(16, 256, 8), k = random.size(64, 4096, 8);
    return sized(random.size(1024, 65536), n, k);
  }
  if (family == "wide") {
    const std::int64_t m = random.size(17, 256), k = random.size(64, 4096, 8);
    return sized(m, random.size(1024, 65536, 8), k);
  }
  if (family == "few_rows") {
    const std::int64_t m = random.size(1, 16), n = random.size(256, 32768, 8);
    return sized(m, n, random.size(256, 16384, 8));
  }
  if (family == "long_k") {
    const std::int64_t m = random.size(16, 512), n = random.size(16, 512, 8);
    return sized(m, n, random.size(4096, 65536, 8));
  }
  if (family == "primes") {
    const std::int64_t m = prime(random, 17, 3000), n = prime(random, 17, 3000);
    return sized(m, n, prime(random, 17, 3000));
  }
  if (family == "batched") {
    const std::int64_t m = random.size(16, 1024), n = random.size(16, 1024, 8);
    GemmProblem problem = sized(m, n, random.size(16, 1024, 8));
    problem.batch = random.size(2, 128);
    return problem;
  }
  const Projection& projection = random.one_of(kProjections);
  return sized(random.size(1, 8192), projection.n, projection.k);
}

}  // namespace tilesmith
