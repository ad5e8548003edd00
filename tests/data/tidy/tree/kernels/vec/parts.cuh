#include <gk/base.cuh>
