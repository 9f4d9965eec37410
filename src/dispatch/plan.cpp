#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

Plan::~Plan() = default;

}  // namespace tilesmith
