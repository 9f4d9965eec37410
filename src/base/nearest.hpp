// What somebody probably meant: the known names nearest to a misspelt one, by edit distance (insert, delete, replace,
// swap two neighbours).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tilesmith {

/// The number of edits between two words; letters that differ only in case are equal.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// At most `count` candidates, nearest first and ties in the order given. Words further than a third of their length
/// are no suggestion.
[[nodiscard]] std::vector<std::string> nearest_names(std::string_view word, std::span<const std::string> candidates,
                                                     std::size_t count = 3);

/// The hint of an error about an unknown name: "did you mean 'a' or 'b'?", or "one of: ..." when nothing is near and
/// the list is short.
[[nodiscard]] std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace tilesmith
