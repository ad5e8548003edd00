/* The name is taken. */
#include "search/judge.h"
