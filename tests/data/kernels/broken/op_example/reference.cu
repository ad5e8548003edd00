extern "C" __global__ void scale_reference() {}
