#pragma once

__device__ inline float scaled(float x, float a)
{
    return a * x;
}
