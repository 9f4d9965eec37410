// What other programs measured of their own kernels, kept beside our races: to compare with, and for the problems that
// they met. Such a timing never decides a choice: it is of another program's kernel, timed in another way.
#pragma once

#include <string>
#include <vector>

namespace tilesmith {

/// A row of another program's file.
struct ForeignSample {
  std::string problem;   ///< identity_of the problem of ours that it computes; empty: none is known
  std::string line;      ///< to_line of that problem; without one, why there is none
  std::string kernel;    ///< what that program calls its kernel, "Gemm_Rocblas_45"; empty: it names none
  double seconds = 0;    ///< of a call; 0: the file does not say
  std::string failure;   ///< why the kernel did not run, in that program's word; empty: it did
  std::string original;  ///< the row as it stood, which an export gives back

  friend bool operator==(const ForeignSample&, const ForeignSample&) = default;
};

/// One file of another program.
struct ForeignSource {
  std::string digest;  ///< SHA-256 of its bytes, so that a file read twice counts once
  std::string format;  ///< "tunableop"
  std::string origin;  ///< its name, for people
  std::string device;  ///< what it was measured on, in that program's words; empty: the file does not say
  std::string header;  ///< what stands before the rows, which an export gives back
  std::vector<ForeignSample> samples;

  friend bool operator==(const ForeignSource&, const ForeignSource&) = default;
};

}  // namespace tilesmith
