#pragma once
#include <gk/tiny.cuh>
