// Exponentials of rows below their maximum, and sums of them: what softmax and cross-entropy share.
// Exponentials are powers of two of arguments that `scale_log2` = scale * log2 e has scaled.
#pragma once

#include <gk/activation.cuh>
#include <gk/rows.cuh>

namespace gk
{

// A scale that may be 0, so that -inf stays -inf, as which what lies outside a row or is masked
// enters: times the least positive number other scores come to next to nothing.
GK_DEVICE float positive_scale(float scale)
{
    return fmaxf(scale, 0x1p-149f);
}

template <typename P> GK_DEVICE float max_of_piece(const P &piece)
{
    float most = piece.v[0];
#pragma unroll
    for (u32 i = 1; i < P::kCount; ++i) {
        most = fmaxf(most, piece.v[i]);
    }
    return most;
}

// Makes exponentials of the piece's elements; returns their sum.
template <typename P> GK_DEVICE float exponentials(P &piece, float most, float scale_log2)
{
    float sum = 0.0f;
#pragma unroll
    for (u32 i = 0; i < P::kCount; ++i) {
        piece.v[i] = ptx::exp2_approx((piece.v[i] - most) * scale_log2);
        sum += piece.v[i];
    }
    return sum;
}

// The sum of exponentials below the maximum so far, scaled down when the maximum grows.
struct RunningSum {
    float most = MaxOp::neutral(), sum = 0.0f;

    // Makes exponentials of the pieces, of no more use.
    template <typename P, u32 kPieces> GK_DEVICE void add(P (&pieces)[kPieces], float scale_log2)
    {
        float more = most, here = 0.0f;
#pragma unroll
        for (u32 p = 0; p < kPieces; ++p) {
            more = fmaxf(more, max_of_piece(pieces[p]));
        }
        if (more == MaxOp::neutral()) {
            return; // nothing but -inf so far: their difference would be NaN
        }
#pragma unroll
        for (u32 p = 0; p < kPieces; ++p) {
            here += exponentials(pieces[p], more, scale_log2);
        }
        sum = below(more, scale_log2) + here;
        most = more;
    }

    // The sum below a maximum that is not smaller than its own.
    GK_DEVICE float below(float more, float scale_log2) const
    {
        return more == most ? sum : sum * ptx::exp2_approx((most - more) * scale_log2);
    }
};

} // namespace gk
