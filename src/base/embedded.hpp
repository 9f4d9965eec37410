// A text file compiled into the library by tilesmith_embed (cmake/Embed.cmake).
#pragma once

#include <span>
#include <string_view>

namespace tilesmith {

struct EmbeddedFile {
  std::string_view path;  ///< relative to the folder it was embedded from
  std::string_view text;
};

}  // namespace tilesmith
