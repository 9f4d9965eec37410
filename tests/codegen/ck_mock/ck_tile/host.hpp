// A stand-in for CK Tile's host side.
#pragma once

#include "ck_tile/host/kernel_launch.hpp"
