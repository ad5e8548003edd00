#include "/etc/passwd"
extern "C" __global__ void scale_plain() {}
