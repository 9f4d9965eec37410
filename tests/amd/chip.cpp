#include "amd/chip.hpp"

#include "amd/fault.hpp"

namespace tilesmith::amdgpu {

Chip Chip::of(std::string_view name) {
  Chip chip;
  chip.name = name;
  if (name == "gfx90a" || name == "gfx942" || name == "gfx950") {
    chip.family = Family::cdna;
    chip.queue = {0, 0, 2, 2};
    chip.most_outstanding = {63, 63, 15, 15};
    chip.matrix_flushes_denormals = name == "gfx90a";
    chip.fnuz = name == "gfx942";
    chip.clears_high_half = true;
  } else if (name == "gfx1100") {
    chip.family = Family::rdna3;
    chip.queue = {0, 1, 2, 2};
    chip.most_outstanding = {63, 63, 63, 63};
  } else if (name == "gfx1201") {
    chip.family = Family::rdna4;
    chip.queue = {0, 1, 2, 3};
    chip.most_outstanding = {63, 63, 63, 31};
  } else {
    fault("the chip {} is not emulated: gfx90a, gfx942, gfx950, gfx1100, gfx1201 are", name);
  }
  return chip;
}

}  // namespace tilesmith::amdgpu
