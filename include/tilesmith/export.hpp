#pragma once

#define TILESMITH_API __attribute__((visibility("default")))
