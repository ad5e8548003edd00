#pragma once
// A header that fixture templates reach through <gk/...>.
#define TINY_MAX(a, b) ((a) > (b) ? (a) : (b))
